"""Words that say how a sentence is built, not what it is about: English, Turkish, Chinese.

A question's stop words are not looked for, unless nothing else remains. English and Turkish stand here as
`text.fold` leaves them: lower case, no diacritics, ``ı`` as ``i``. This module imports nothing of ours.
"""

from __future__ import annotations

_ENGLISH = """
a about above after again all also am an and any are as at be because been before being below between
both but by ca can could did do does doing done down during each few for from had has have having he her
here hers herself him himself his how i if in into is it its itself just may me might mine more most must
my myself no nor not of off on onto or other our ours ourselves out over own same shall she should so some
such than that the their theirs them themselves then there these they this those through to too under up
us very was we were what when where which while who whom whose why will with without wo would you your
yours yourself
"""

_TURKISH = """
acaba ama ancak aslinda ayni az bana bazi belki ben beni benim bile bir biri biz bize bizi bizim boyle bu
buna bunlar bunu bunun cunku cok da daha de degil diye dolayi eger en fakat gibi hangi hangisi hatta hem
hep hepsi her hic icin idi ile ise kac kadar kendi ki kim kime kimi kimin mi midir miydi mu mudur nasil ne
neden nedir nerede nereden nereye nicin niye o olan olarak oldu oldugu olmak olur on ona onlar onlarin onu
onun ora oysa peki sana sanki sen seni senin siz size sizi sizin sonra su suna sunu tum uzere var ve veya
ya yani yine yok zaten
"""

STOP_WORDS = frozenset(_ENGLISH.split() + _TURKISH.split())

# Characters that are seldom part of a longer word with a meaning of its own, then whole words.
STOP_CHARACTERS = frozenset("的了是在和与或就也都很还把被给吗呢吧啊呀么什怎我你他她它您这那哪谁之而及其们")
_CHINESE = """
什么 怎么 为什 怎样 哪些 哪个 哪里 多少 如何 我们 你们 他们 这个 那个 这些 那些 这里 那里 是否
因为 所以 但是 如果 已经 可以 没有 就是 还是 或者 以及 关于
"""
STOP_PAIRS = frozenset(_CHINESE.split())

# What people say when they ask an assistant for something, whatever it is about: in a chat that did not ask
# its memory, such a word in common is no reason to speak up.
ASKING_WORDS = """
write rewrite explain describe define give tell show say suggest recommend translate convert
summarise summarize
compare create generate make find fix list draft help work mean use name want need know look try add
change check
good better best bad new old first last next big small long short different important possible
simple
one two three four five six seven eight nine ten hundred thousand
time day week month year today tomorrow yesterday now thing way word sentence text example
difference meaning
number question answer idea title part kind
yaz açıkla anlat tanımla öner hazırla çevir listele ver söyle bul göster özetle karşılaştır yap
oluştur düzelt çalış
iyi kötü yeni eski ilk son büyük küçük uzun kısa bir iki üç dört beş altı yedi sekiz dokuz on yüz
bin
zaman gün hafta ay yıl bugün yarın dün şimdi şey sözcük kelime cümle metin örnek fark anlam sayı
soru cevap isim ad
解释 描述 定义 推荐 建议 翻译 转换 总结 比较 生成 创建 修改 列出 介绍 说明 告诉 帮我
给我 写一 一个 一下 一段 几个
时间 今天 明天 昨天 现在 东西 方法 句子 文字 例子 区别 意思 问题 名字 写 用 做 好
大 小 新 旧 一 二 三 四 五 六 七 八 九 十
"""
