"""Secrets are masked wherever they stand, and nothing else is touched."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rawthink_core import scanning
from rawthink_core.redaction import Secret, find_secrets, redact

KEY40 = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"
PEM_BODY = "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun\nVTLw7onLRnrq0/IzW7yWR7QkrmBL7jTKEn5u+qKhbwKfBstIs+bMY2Zkp18gnTxK\nLxoS2tFczGkPLPgizskuemMg==\n"

SHAPES = [
    ("ghp_" + "a1B2" * 9, "github-token"),
    ("gho_" + "0" * 36, "github-token"),
    ("ghs_" + "Zz9" * 12, "github-token"),
    ("ghu_" + "Zz9" * 12, "github-token"),
    ("ghr_" + "Zz9" * 12, "github-token"),
    ("github_pat_11ABCDEFG0" + "aB3_" * 15, "github-token"),
    ("AKIAIOSFODNN7EXAMPLE", "aws-key-id"),
    ("ASIAIOSFODNN7EXAMPLE", "aws-key-id"),
    ("sk-" + "aB3d" * 12, "api-key"),
    ("sk-proj-" + "aB3_-" * 10, "openai-key"),
    ("sk-ant-api03-" + "aB3_-" * 10, "anthropic-key"),
    ("xoxb-123456789012-abcDEF123", "slack-token"),
    ("AIza" + "SyA-1_b" * 5, "google-key"),
    ("sk_live_" + "4eC39HqLyjWD", "stripe-key"),
    ("rk_test_" + "4eC39HqLyjWD", "stripe-key"),
    ("npm_" + "aB3d" * 9, "npm-token"),
    ("pypi-AgEIcHlwaS5vcmc" + "CJGQ0" * 10, "pypi-token"),
    ("hf_" + "aBcDeFgHiJ" * 3, "huggingface-token"),
    ("glpat-" + "x1Y2-" * 4, "gitlab-token"),
    ("nmem_" + "a1b2c3d4" * 4, "nowledge-key"),
    (JWT, "jwt"),
]


@pytest.mark.parametrize(("secret", "kind"), SHAPES, ids=[f"{kind}-{secret[:6]}" for secret, kind in SHAPES])
@pytest.mark.parametrize("sentence", ["use {} now", "用{}来推送，谢谢", "Anahtar: ({}).", "KEY='{}'\n"])
def test_a_token_is_masked_and_the_sentence_around_it_kept(secret, kind, sentence):
    redacted = redact(sentence.format(secret))
    assert redacted.text == sentence.format(f"[redacted {kind}]")
    assert [found.kind for found in redacted.found] == [kind]


def test_a_finding_says_kind_and_place_but_never_the_value():
    text = "my key ghp_" + "a" * 36
    assert redact(text).found == (Secret("github-token", 7, 47),)
    assert "aaaa" not in repr(redact(text))


@pytest.mark.parametrize(
    "text",
    [
        f"AKIAIOSFODNN7EXAMPLE {KEY40}",
        f"{KEY40}\nAKIAIOSFODNN7EXAMPLE",
        f"aws_secret_access_key = {KEY40}",
        f'"SecretAccessKey": "{KEY40}"',
        f"export AWS_SECRET_ACCESS_KEY={KEY40}",
    ],
)
def test_an_aws_secret_key_is_masked_beside_its_id_or_when_labelled(text):
    assert KEY40 not in redact(text).text
    assert "[redacted aws-secret-key]" in redact(text).text


def test_a_commit_hash_beside_an_aws_key_id_is_no_secret():
    sha = "0123456789abcdef0123456789abcdef01234567"
    assert sha in redact(f"AKIAIOSFODNN7EXAMPLE was leaked in {sha}").text


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""])
def test_a_private_key_is_masked_as_one_block(kind):
    block = f"-----BEGIN {kind}PRIVATE KEY-----\n{PEM_BODY}-----END {kind}PRIVATE KEY-----"
    assert redact(f"here:\n{block}\nkeep me").text == "here:\n[redacted private-key]\nkeep me"
    escaped = block.replace("\n", "\\n")
    assert redact(f'{{"private_key": "{escaped}\\n"}}').text == '{"private_key": "[redacted private-key]"}'


def test_a_private_key_that_was_cut_off_is_masked_as_far_as_it_goes():
    text = f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{PEM_BODY}and then the paste ended"
    assert redact(text).text == "[redacted private-key]\nand then the paste ended"


def test_a_private_key_header_that_is_only_mentioned_stays():
    text = "the file begins with -----BEGIN PRIVATE KEY----- as usual"
    assert redact(text).text == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://bob:s3cret@db.host:5432/app", "postgres://bob:[redacted password]@db.host:5432/app"),
        ("postgres://user:password@host", "postgres://user:[redacted password]@host"),
        ("redis://:pw@cache", "redis://:[redacted password]@cache"),
        ("mysql://bob:p@ss@db/x", "mysql://bob:[redacted password]@db/x"),
        ("mysql://bob:pa/ss@db/x", "mysql://bob:[redacted password]@db/x"),
        ("看https://张三:密码123@例子.中国/x，谢谢", "看https://张三:[redacted password]@例子.中国/x，谢谢"),
    ],
)
def test_only_the_password_of_a_url_is_masked(text, masked):
    assert redact(text).text == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=hunter2", "password=[redacted password]"),
        ("DB_PASSWORD = swordfish", "DB_PASSWORD = [redacted password]"),
        ("db_pass=hunter2", "db_pass=[redacted password]"),
        ("Password: hunter2, user: bob", "Password: [redacted password], user: bob"),
        ("**Password:** hunter2", "**Password:** [redacted password]"),
        ("--password hunter2 --verbose", "--password [redacted password] --verbose"),
        ("password: str = 'hunter2'", "password: str = '[redacted password]'"),
        ("<password>hunter2</password>", "<password>[redacted password]</password>"),
        ("login?password=abc&x=1", "login?password=[redacted password]&x=1"),
        ('{"password": "correct horse"}', '{"password": "[redacted password]"}'),
        (r"{\"password\": \"abc\"}", r"{\"password\": \"[redacted password]\"}"),
        ("my password is hunter2", "my password is [redacted password]"),
        ('api_key: "k-12345678"', 'api_key: "[redacted api-key]"'),
        ("x-api-key: 0123456789abcdef", "x-api-key: [redacted api-key]"),
        ("client_secret=s3cr3t-value", "client_secret=[redacted secret]"),
        ("access_token=ya.0123456789", "access_token=[redacted token]"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted credentials]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted credentials]"),
        ("密码：hunter2", "密码：[redacted password]"),
        ("我的密码是abc123，别告诉别人", "我的密码是[redacted password]，别告诉别人"),
        ("密钥: a1b2c3d4e5", "密钥: [redacted api-key]"),
        ("parola: gizli123 olsun", "parola: [redacted password] olsun"),
        ("şifre=elma", "şifre=[redacted password]"),
        ("Şifrem: elma", "Şifrem: [redacted password]"),
        ("Passwort: geheim99", "Passwort: [redacted password]"),
        ("пароль: солнышко", "пароль: [redacted password]"),
    ],
)
def test_what_a_label_announces_is_masked(text, masked):
    assert redact(text).text == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the password is stored in vault",
        "About the password: how do I reset it?",
        "Password: required",
        "password: str",
        "password=os.environ['DB_PASS']",
        "password=$DB_PASS",
        'password: "${DB_PASS}"',
        "PWD=/home/ada",
        "密码：请联系管理员",
        "密码是什么？",
        "parola: en az 8 karakter olmalı",
        "max_tokens: 4096, total_token=12345678",
        "the secret: patience and time",
        "sk-learn and task-force and risk-management-and-control-2",
        "nmem_search_memories_tool",
        "hf_hub_download(repo) and npm_config_registry",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "aGVsbG8gd29ybGQsIHRoaXMgaXMgb3JkaW5hcnkgYmFzZTY0IHRleHQ=",
        "https://example.com:8080/@scope/pkg@1.0",
        "https://example.com/a?b=c#d and mail ada@example.com",
        "12:30://a note",
        "eyJ is how a JWT begins",
    ],
)
def test_ordinary_text_stays_byte_for_byte(text):
    assert redact(text).text == text
    assert redact(text).found == ()


def test_a_secret_seen_in_two_ways_is_masked_once_and_named_by_its_form():
    assert redact("token=ghp_" + "a" * 36).text == "token=[redacted github-token]"
    assert redact(f"Authorization: Bearer {JWT}").text == "Authorization: Bearer [redacted jwt]"


PIECES = st.sampled_from(
    [
        *(secret for secret, _ in SHAPES),
        *(
            "password",
            "密码",
            "parola",
            "api_key",
            "token",
            "secret",
            "Authorization",
            "Bearer ",
            "AKIA",
            "ghp_",
        ),
        *(
            "=",
            ": ",
            "：",
            " is ",
            "是",
            " ",
            "\n",
            "://",
            ":",
            "@",
            "/",
            '"',
            "'",
            "\\",
            "&",
            "-",
            "_",
            "]",
            "[",
            "x1",
        ),
        *(
            "-----BEGIN RSA PRIVATE KEY-----",
            "-----END RSA PRIVATE KEY-----",
            "\nMIIEowIBAAKCAQEAu1SU\n",
            KEY40,
        ),
        *("[redacted password]", "[redacted ", "hunter2", "correct", "é", "好"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=14).map("".join)


@settings(max_examples=300, deadline=None)
@example("-----BEGIN RSA PRIVATE KEY-----" * 2 + "-----END RSA PRIVATE KEY-----" * 2)
@given(TEXTS)
def test_redacting_twice_changes_nothing(text):
    once = redact(text).text
    assert redact(once).text == once


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_findings_are_in_order_apart_and_rebuild_the_text(text):
    found = find_secrets(text)
    assert all(secret.start < secret.end for secret in found)
    assert all(left.end <= right.start for left, right in itertools.pairwise(found))
    kept = text
    for secret in reversed(found):
        kept = f"{kept[: secret.start]}[redacted {secret.kind}]{kept[secret.end :]}"
    assert kept == redact(text).text


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(1, 40))
def test_where_a_long_text_is_cut_into_pieces_changes_nothing(text, size):
    whole = find_secrets(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "PIECE", size)
        assert find_secrets(text) == whole


@pytest.mark.parametrize("before", [scanning.PIECE - 20, scanning.PIECE, scanning.PIECE + 1])
def test_a_secret_across_two_pieces_is_masked_whole(before):
    secret = "ghp_" + "a1B2" * (scanning.REACH // 2)  # ends far behind what the first piece sees
    text = "word " * (before // 5) + "x" * (before % 5) + f" {secret} " + "word " * 20_000
    (found,) = find_secrets(text)
    assert text[found.start : found.end] == secret


@pytest.mark.parametrize(
    "unit",
    [
        "ghs_1_eyJ-",
        "AKIAIOSFODNN7EXAMPLE ",
        "sk-a-",
        "_eyJabcdefgh",
        "://a:b",
        "a://b:/",
        "password=",
        "password='\"",
        "password=a(",
        "token: Bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "密码是",
        "a.",
        "-",
        " ",
        "password=\\",
    ],
)
def test_hostile_text_is_read_in_linear_time(unit):
    text = (unit * (300_000 // len(unit) + 1))[:300_000]
    started = time.process_time()
    redact(text)
    assert (
        time.process_time() - started < 10
    )  # linear takes a third of a second; quadratic would take minutes
