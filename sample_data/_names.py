"""The words that the shop's catalogue is made of: categories, tags and names."""

from __future__ import annotations

__all__ = [
    "CATEGORIES",
    "COMMON_TAGS",
    "FURRY",
    "FUR_TAGS",
    "NAMES",
    "NEWCOMERS",
    "POPULAR",
    "TAGS",
    "TITLES",
]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# id, name, share of the catalogue, tags that fit this kind of animal
CATEGORIES: tuple[tuple[int, str, int, tuple[str, ...]], ...] = (
    (1, "Dogs", 20, ("house-trained", "leash-trained", "good with children", "good with cats")),
    (2, "Cats", 19, ("indoor only", "house-trained", "long-haired", "good with dogs")),
    (3, "Rabbits", 9, ("bonded pair", "lop-eared", "needs garden", "long-haired")),
    (4, "Guinea Pigs", 6, ("bonded pair", "good with children", "long-haired", "small")),
    (5, "Hamsters & Mice", 6, ("nocturnal", "small", "hand-tame", "beginner-friendly")),
    (6, "Parrots", 6, ("talks", "hand-reared", "needs company", "experienced keeper")),
    (7, "Finches & Canaries", 5, ("sings", "bonded pair", "needs company", "aviary")),
    (8, "Freshwater Fish", 9, ("planted tank", "cold water", "schooling", "beginner-friendly")),
    (9, "Marine Fish", 4, ("reef-safe", "quarantined", "experienced keeper", "tropical")),
    (10, "Turtles & Tortoises", 4, ("herbivore", "needs garden", "heat lamp", "papers")),
    (11, "Reptiles", 4, ("heat lamp", "live food", "experienced keeper", "papers")),
    (12, "Amphibians", 3, ("live food", "cold water", "nocturnal", "tropical")),
    (13, "Hens & Ducks", 3, ("needs garden", "lays daily", "needs company", "eats grain; greens")),
    (14, "Ferrets", 2, ("playful", "nocturnal", "experienced keeper", "hand-tame")),
)

COMMON_TAGS = (
    "friendly",
    "playful",
    "calm",
    "shy",
    "senior",
    "young",
    "rescue",
    "special diet",
    "new arrival",
    "on offer",
    "award winner",
)
FUR_TAGS = ("vaccinated", "microchipped", "neutered", "pedigree", "crème coat")
FURRY = ("Dogs", "Cats", "Rabbits", "Ferrets")

_BY_KIND = dict.fromkeys(tag for *_, tags in CATEGORIES for tag in tags)
TAGS: dict[str, int] = {
    name: 100 + n for n, name in enumerate(dict.fromkeys((*COMMON_TAGS, *FUR_TAGS, *_BY_KIND)), 1)
}
"""Each tag's one id."""

POPULAR = _words(
    """
    Bella Max Luna Charlie Lucy Cooper Bailey Daisy Sadie Molly Buddy Lola Stella Tucker Harley
    Maggie Riley Bear Sophie Duke Jack Oliver Chloe Penny Jake Coco Toby Roxy Lily Murphy Ruby
    Rosie Gus Finn Ginger Pepper Oreo Shadow Smokey Simba Nala Cleo Misty Felix Milo Leo Nemo
    Goldie Bubbles Kiwi Snowy Flopsy Thumper Squeak Patch Rocky Teddy Honey Amber Minnie
    """
)

NAMES = _words(
    """
    Whiskers Socks Mittens Boots Salem Binx Marble Pumpkin Biscuit Waffles Nacho Peanut Pickles
    Noodle Dumpling Mochi Olive Hazel Willow Ivy Juniper Clover Poppy Thistle Bramble Acorn Maple
    Aspen River Storm Comet Nova Orion Cosmo Apollo Zeus Athena Hera Hermes Freya Thor Loki Odin
    Winston Jasper Tigger Patches Button Crumpet Scone Fudge Toffee Treacle Custard Truffle Pippin
    Bertie Alfie Monty Rufus Barney Basil Sage Saffron Cinnamon Nutmeg Clove Paprika Chilli Wasabi
    Sushi Tofu Taco Burrito Churro Pretzel Bagel Muffin Cupcake Brownie Cookie Caramel Pudding
    Ziggy Bowie Elvis Ringo Hendrix Mozart Chopin Verdi Puccini Tosca Aida Carmen Figaro Otello
    Hamlet Ophelia Portia Romeo Juliet Puck Oberon Titania Ariel Prospero Darwin Newton Tesla Ada
    Hopper Turing Kepler Galileo Copernicus Marie Pascal Fermat Noether Hypatia Euclid Pixel Widget
    Gizmo Sprocket Turbo Dash Zippy Scooter Domino Bingo Lucky Joker Ace Jinx Merlin Gandalf Frodo
    Pippi Emil Asterix Obelix Idefix Rantanplan Milou Moomin Totoro Kiki Ponyo Chihiro Akira Sakura
    O'Malley O'Hara D'Artagnan McGonagall Fitzwilliam St.John Anne-Marie Jean-Luc Mary-Lou Ka'ahu
    Zoë Chloé Björn Søren Åsa Öland Jürgen Käthe Günther Mäuschen Strolch Flöckchen Bärli Purzel
    Schnüffel Krümel Möhrchen Wölfchen Rübe Weiß Mimì Nuvola Biscotto Fragolina Perché Bambù
    Peluche Íñigo Ñandú Señorita Pequeño Canela Chispa Niña Tiburón Algodón Coração Pipoca Feijão
    João Açaí Façade François Élodie Noisette Réglisse Crème Grâce Œdipe Noël Hélène Gâteau Brûlée
    Łatka Żabka Świstak Źrebak Śnieżka Pączek Ćma Čenda Žofka Řízek Šmudla Mňouk Ťapka Ďáblík Bodri
    Cirmos Morzsa Fülöp Őszi Tücsök Şeker Pamuk Boncuk Çakıl Köpük İnci Ünal Lăbuș Mițu Ħobża Þór
    Snælda Ægir Ísbjörn Käpälä Mörkö Hämärä Õnne Mõmmi Šarūnas Rūta Kaķis Ģertrūde Žiga Čoko Đuro
    Чернышка Мурзик Барсик Шарик Рыжик Пушок Снежок Жучка Бобик Каштанка Мурка Кузя Ёжик Їжачок
    Сірко Белка Зірка Љубица Ђурђа Мечо Φρίξος Ψαράκης Μαύρη Ασπρούλα Ορφέας
    小雪 旺财 豆豆 咪咪 团子 年糕 花花 大橘 小黑 乐乐 雪球 芝麻 さくら モモ こたろう ハチ ムギ ソラ
    きなこ あずき 초코 보리 콩이 두부 나비 누리 구름 مشمش لولو قمر سكر فلفل زيتون سمسم
    שוקו נמש בוני คุกกี้ มะลิ ขนมปัง मोती शेरू गुड़िया ქერა Փիսո Mèo Đốm Nguyệt Bông
    """
)

TITLES = ("Captain", "Professor", "Little", "Old", "Doctor", "Big", "Tiny", "Baby", "Agent", "Chef")

NEWCOMERS = _words(
    """
    Nougat Lumi Zuzu Bonbon Pralina Marzipan Praline Macaron Eclair Cannoli Tiramisù Gelato Espresso
    Cappuccino Latte Mocha Matcha Chai Rooibos Darjeeling Assam Oolong Sencha Kombucha Lassi Naan
    Samosa Paneer Korma Tikka Masala Biryani Pierogi Bigos Żurek Kołacz Gołąbek Kapuśniak Łosoś
    Śliwka Gruszka Jabłko Malinka Jeżyk Wróbel Bocian Pilzchen Röschen Schätzchen Spätzle Knödel
    Brezn Häppchen Löwchen Möwe Köpfchen Grünfink Blümchen Süße Fünkchen Étoile Soleil Lumière
    Pétale Bébé Chouchou Câline Flâneur Fée Abeille Papillon Estrellita Corazón Piñata Mañana
    Limón Plátano Maíz Jalapeño Azúcar Sertã Pão Limão Sabiá Tucano Jabuti Fjord Fjäll Sköldis
    Älgen Blåbær Løve Bjørk Kråka Мандаринка Вишня Персик Изюм Тыква Пельмень Варенье Смородина
    Μέλι Καρπούζι Σύννεφο 桃子 饺子 豆腐 月亮 星星 柚子 ゆず こむぎ たぬき わらび 감자 호두 땅콩
    별이 بندق كراميل نجمة עננה קוקוס ชาเย็น น้ำผึ้ง लड्डू बादल Lúa Xoài Ổi Trứng
    """
)
