# ruff: noqa: RUF001 - letters of other scripts
"""Names of months and of halves of the day, as Java's locales print them.

`java.util.logging` writes the date in the locale's words. A name is a month's in one language
alone, or it is left out (Croatian's). JDK 17 and JDK 8 print them differently.
"""

MONTHS = (
    (
        "january janvier januar enero janeiro gennaio januari styczeń января январь ocak led "
        "січ Ιαν ιαν tammik яну 一月"
    ),
    (
        "february février februar febrero fevereiro febbraio februari luty февраля февраль "
        "şubat Şubat úno febr лют Φεβ φεβ helmik фев 二月"
    ),
    (
        "march mars märz marzo março maart mrz mrt marzec марта март bře márc бер Μαρ μαρ "
        "maalisk март 三月"
    ),
    ("april avril abril aprile kwiecień апреля апрель nisan dub ápr квіт Απρ απρ huhtik апр 四月"),
    "may mai mayo maio maggio mei maj мая май kvě máj трав Μαΐ μαΐ toukok май 五月",
    (
        "june juin juni junio junho giugno czerwiec июня июнь haziran čvn jún черв Ιουν ιουν "
        "kesäk юни 六月"
    ),
    (
        "july juillet juli julio julho luglio lipiec июля июль temmuz čvc júl лип Ιουλ ιουλ "
        "heinäk юли 七月"
    ),
    (
        "august août agosto augustus aug sierpień августа август ağustos srp серп Αυγ αυγ "
        "elok авг 八月"
    ),
    (
        "september septembre septiembre setembro settembre sept wrzesień сентября сентябрь "
        "eylül zář szept вер Σεπ σεπ syysk сеп 九月"
    ),
    (
        "october octobre oktober octubre outubro ottobre październik октября октябрь ekim říj "
        "жовт Οκτ οκτ lokak окт 十月"
    ),
    (
        "november novembre noviembre novembro listopad ноября ноябрь kas лист Νοε νοε marrask "
        "ное 十一月"
    ),
    (
        "december décembre dezember diciembre dezembro dicembre grudzień декабря декабрь ara "
        "pro груд Δεκ δεκ jouluk дек 十二月"
    ),
)
"""Months in English, French, German, Spanish, Portuguese, Italian, Dutch, Polish, Russian and
Turkish; Czech, Hungarian, Ukrainian, Greek, Finnish, Bulgarian and JDK 8's Chinese. JDKs shorten
them to three or four letters, with a full stop or without."""

AFTERNOON = (
    "下午", "午後", "오후", "NACHM.", "EM", "ODP.", "POP.", "DU.", "IP.", "ПП", "Μ.Μ.", "CH",
    "ÖS", "СЛ.ОБ.",
)  # fmt: skip
MORNING = (
    "上午", "午前", "오전", "VORM.", "FM", "DOP.", "DE.", "AP.", "ДП", "Π.Μ.", "SA", "ÖÖ",
    "ПР.ОБ.",
)  # fmt: skip
"""Halves of the day in Chinese, Japanese, Korean, German, Swedish, Czech, Slovene, Hungarian,
Finnish, Ukrainian, Greek, Vietnamese, Turkish and Bulgarian; Java writes them in capitals."""
