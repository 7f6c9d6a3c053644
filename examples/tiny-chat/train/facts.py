"""What Tiny knows: the small world that make_text.py turns into talk."""

# country: (capital, continent)
COUNTRIES = {
    "France": ("Paris", "Europe"),
    "Germany": ("Berlin", "Europe"),
    "Italy": ("Rome", "Europe"),
    "Spain": ("Madrid", "Europe"),
    "Portugal": ("Lisbon", "Europe"),
    "Austria": ("Vienna", "Europe"),
    "Switzerland": ("Bern", "Europe"),
    "Belgium": ("Brussels", "Europe"),
    "the Netherlands": ("Amsterdam", "Europe"),
    "Denmark": ("Copenhagen", "Europe"),
    "Norway": ("Oslo", "Europe"),
    "Sweden": ("Stockholm", "Europe"),
    "Finland": ("Helsinki", "Europe"),
    "Iceland": ("Reykjavik", "Europe"),
    "Ireland": ("Dublin", "Europe"),
    "the United Kingdom": ("London", "Europe"),
    "Poland": ("Warsaw", "Europe"),
    "Czechia": ("Prague", "Europe"),
    "Slovakia": ("Bratislava", "Europe"),
    "Hungary": ("Budapest", "Europe"),
    "Greece": ("Athens", "Europe"),
    "Romania": ("Bucharest", "Europe"),
    "Bulgaria": ("Sofia", "Europe"),
    "Serbia": ("Belgrade", "Europe"),
    "Croatia": ("Zagreb", "Europe"),
    "Slovenia": ("Ljubljana", "Europe"),
    "Estonia": ("Tallinn", "Europe"),
    "Latvia": ("Riga", "Europe"),
    "Lithuania": ("Vilnius", "Europe"),
    "Ukraine": ("Kyiv", "Europe"),
    "Turkey": ("Ankara", "Asia"),
    "Japan": ("Tokyo", "Asia"),
    "South Korea": ("Seoul", "Asia"),
    "China": ("Beijing", "Asia"),
    "Mongolia": ("Ulaanbaatar", "Asia"),
    "India": ("New Delhi", "Asia"),
    "Nepal": ("Kathmandu", "Asia"),
    "Pakistan": ("Islamabad", "Asia"),
    "Thailand": ("Bangkok", "Asia"),
    "Vietnam": ("Hanoi", "Asia"),
    "Indonesia": ("Jakarta", "Asia"),
    "the Philippines": ("Manila", "Asia"),
    "Malaysia": ("Kuala Lumpur", "Asia"),
    "Iran": ("Tehran", "Asia"),
    "Iraq": ("Baghdad", "Asia"),
    "Jordan": ("Amman", "Asia"),
    "Egypt": ("Cairo", "Africa"),
    "Morocco": ("Rabat", "Africa"),
    "Tunisia": ("Tunis", "Africa"),
    "Kenya": ("Nairobi", "Africa"),
    "Ghana": ("Accra", "Africa"),
    "Senegal": ("Dakar", "Africa"),
    "Ethiopia": ("Addis Ababa", "Africa"),
    "Nigeria": ("Abuja", "Africa"),
    "Canada": ("Ottawa", "North America"),
    "Mexico": ("Mexico City", "North America"),
    "Cuba": ("Havana", "North America"),
    "Brazil": ("Brasilia", "South America"),
    "Argentina": ("Buenos Aires", "South America"),
    "Chile": ("Santiago", "South America"),
    "Peru": ("Lima", "South America"),
    "Colombia": ("Bogota", "South America"),
    "Australia": ("Canberra", "Oceania"),
    "New Zealand": ("Wellington", "Oceania"),
}

NO_SUCH_PLACES = ["Narnia", "Atlantis", "Wonderland", "Mordor", "the Moon",
                  "Mars", "Oz", "Neverland", "Lilliput", "the North Pole"]

OPPOSITES = [
    ("hot", "cold"), ("big", "small"), ("fast", "slow"), ("happy", "sad"),
    ("light", "dark"), ("up", "down"), ("left", "right"), ("open", "closed"),
    ("old", "young"), ("long", "short"), ("wet", "dry"), ("day", "night"),
    ("good", "bad"), ("hard", "soft"), ("full", "empty"), ("rich", "poor"),
    ("high", "low"), ("loud", "quiet"), ("early", "late"), ("near", "far"),
    ("clean", "dirty"), ("strong", "weak"), ("true", "false"),
    ("yes", "no"), ("in", "out"), ("wide", "narrow"), ("thick", "thin"),
    ("sweet", "sour"), ("begin", "end"),
    ("win", "lose"), ("love", "hate"), ("push", "pull"), ("buy", "sell"),
    ("give", "take"), ("laugh", "cry"), ("awake", "asleep"),
    ("easy", "difficult"), ("first", "last"), ("always", "never"),
    ("summer", "winter"), ("north", "south"), ("east", "west"),
    ("top", "bottom"), ("inside", "outside"), ("brave", "afraid"),
    ("sharp", "blunt"), ("smooth", "rough"), ("cheap", "expensive"),
    ("friend", "enemy"), ("question", "answer"), ("alive", "dead"),
    ("polite", "rude"), ("simple", "complicated"), ("deep", "shallow"),
]

# animal: (sound, home, food, legs, young, can fly, can swim, description)
ANIMALS = {
    "dog": ("woof", "in a house with people", "meat and bones", 4, "puppy",
            False, True, "A dog is a loyal animal that likes to play with "
            "people."),
    "cat": ("meow", "in a house with people", "fish and mice", 4, "kitten",
            False, False, "A cat is a soft animal with whiskers that likes to "
            "sleep in the sun."),
    "cow": ("moo", "on a farm", "grass", 4, "calf", False, True,
            "A cow is a big, gentle animal that gives us milk."),
    "horse": ("neigh", "on a farm", "grass and hay", 4, "foal", False, True,
              "A horse is a strong animal that can run very fast."),
    "pig": ("oink", "on a farm", "corn and roots", 4, "piglet", False, True,
            "A pig is a clever pink animal that likes mud."),
    "sheep": ("baa", "on a farm", "grass", 4, "lamb", False, False,
              "A sheep is a calm animal that gives us wool."),
    "goat": ("bleat", "in the mountains", "grass and leaves", 4, "kid",
             False, False, "A goat is a nimble animal that likes to climb."),
    "duck": ("quack", "on a pond", "plants and insects", 2, "duckling", True,
             True, "A duck is a bird with a flat beak that likes the water."),
    "hen": ("cluck", "on a farm", "seeds and worms", 2, "chick", False, False,
            "A hen is a bird that lays eggs."),
    "owl": ("hoot", "in the forest", "mice", 2, "owlet", True, False,
            "An owl is a bird that sleeps by day and flies by night."),
    "lion": ("roar", "in the savanna", "meat", 4, "cub", False, True,
             "A lion is a big cat with a golden coat and a loud roar."),
    "tiger": ("roar", "in the jungle", "meat", 4, "cub", False, True,
              "A tiger is a big cat with orange and black stripes."),
    "bear": ("growl", "in the forest", "berries and fish", 4, "cub", False,
             True, "A bear is a big, strong animal that sleeps all winter."),
    "wolf": ("howl", "in the forest", "meat", 4, "pup", False, True,
             "A wolf is a wild animal that hunts in a pack."),
    "fox": ("yip", "in the forest", "mice and berries", 4, "kit", False, True,
            "A fox is a clever animal with red fur and a bushy tail."),
    "elephant": ("trumpet", "in the savanna", "leaves and grass", 4, "calf",
                 False, True, "An elephant is the largest animal on land, with "
                 "a long trunk and big ears."),
    "giraffe": ("hum", "in the savanna", "leaves", 4, "calf", False, False,
                "A giraffe is a very tall animal with a long neck."),
    "monkey": ("chatter", "in the jungle", "fruit and nuts", 2, "infant",
               False, True, "A monkey is a clever animal that swings from tree "
               "to tree."),
    "mouse": ("squeak", "in a hole", "seeds and cheese", 4, "pup", False,
              True, "A mouse is a tiny animal with round ears and a long "
              "tail."),
    "rabbit": ("squeak", "in a burrow", "grass and carrots", 4, "bunny",
               False, False, "A rabbit is a soft animal with long ears that "
               "hops."),
    "squirrel": ("chatter", "in a tree", "nuts and seeds", 4, "kit", False,
                 False, "A squirrel is a quick animal with a bushy tail that "
                 "hides nuts."),
    "frog": ("croak", "in a pond", "insects", 4, "tadpole", False, True,
             "A frog is a small green animal that jumps and swims."),
    "bee": ("buzz", "in a hive", "nectar", 6, "larva", True, False,
            "A bee is a small insect that makes honey."),
    "spider": ("nothing", "in a web", "insects", 8, "spiderling", False,
               False, "A spider is a small animal with eight legs that spins a "
               "web."),
    "ant": ("nothing", "in a nest under the ground", "seeds and sugar", 6,
            "larva", False, False, "An ant is a tiny insect that works "
            "together with many others."),
    "butterfly": ("nothing", "in a meadow", "nectar", 6, "caterpillar", True,
                  False, "A butterfly is an insect with big, colourful "
                  "wings."),
    "penguin": ("honk", "in the cold south", "fish", 2, "chick", False, True,
                "A penguin is a black and white bird that swims but cannot "
                "fly."),
    "eagle": ("screech", "in the mountains", "fish and rabbits", 2, "eaglet",
              True, False, "An eagle is a large bird with very sharp eyes."),
    "parrot": ("squawk", "in the jungle", "fruit and seeds", 2, "chick", True,
               False, "A parrot is a colourful bird that can copy words."),
    "swan": ("honk", "on a lake", "water plants", 2, "cygnet", True, True,
             "A swan is a large white bird with a long neck."),
    "fish": ("nothing", "in the water", "plants and worms", 0, "fry", False,
             True, "A fish is an animal that lives in water and breathes with "
             "gills."),
    "shark": ("nothing", "in the sea", "fish", 0, "pup", False, True,
              "A shark is a large fish with many sharp teeth."),
    "whale": ("song", "in the sea", "tiny sea animals", 0, "calf", False,
              True, "A whale is the largest animal in the sea."),
    "dolphin": ("click", "in the sea", "fish", 0, "calf", False, True,
                "A dolphin is a clever sea animal that likes to jump and "
                "play."),
    "octopus": ("nothing", "in the sea", "crabs", 8, "larva", False, True,
                "An octopus is a clever sea animal with eight arms."),
    "snake": ("hiss", "in the grass", "mice", 0, "snakelet", False, True,
              "A snake is a long animal without legs."),
    "turtle": ("nothing", "in the water and on land", "plants", 4,
               "hatchling", False, True, "A turtle is a slow animal with a "
               "hard shell."),
    "hedgehog": ("snuffle", "in the garden", "insects and snails", 4,
                 "hoglet", False, True, "A hedgehog is a small animal covered "
                 "in spines."),
    "camel": ("grunt", "in the desert", "dry plants", 4, "calf", False, False,
              "A camel is a desert animal with a hump on its back."),
    "kangaroo": ("chuckle", "in Australia", "grass", 2, "joey", False, True,
                 "A kangaroo is an animal that hops and carries its young in "
                 "a pouch."),
    "panda": ("bleat", "in the mountains of China", "bamboo", 4, "cub", False,
              True, "A panda is a black and white bear that eats bamboo."),
    "koala": ("grunt", "in the trees of Australia", "leaves", 4, "joey",
              False, False, "A koala is a sleepy grey animal that lives in "
              "trees."),
}

# thing: colour; with the article it is asked with
COLOURS = {
    "the sky": "blue", "grass": "green", "snow": "white", "the sun": "yellow",
    "a banana": "yellow", "a lemon": "yellow", "a tomato": "red",
    "a strawberry": "red", "a cherry": "red", "blood": "red",
    "a fire engine": "red", "an orange": "orange", "a carrot": "orange",
    "a pumpkin": "orange", "a leaf in summer": "green", "a frog": "green",
    "a cucumber": "green", "a pea": "green", "the sea": "blue",
    "a blueberry": "blue", "a plum": "purple", "an eggplant": "purple",
    "lavender": "purple", "a pig": "pink", "a flamingo": "pink",
    "milk": "white", "a cloud": "white", "salt": "white", "coal": "black",
    "a crow": "black", "the night": "black", "chocolate": "brown",
    "a tree trunk": "brown", "coffee": "brown", "earth": "brown",
    "an elephant": "grey", "a mouse": "grey", "a rain cloud": "grey",
    "gold": "yellow", "an emerald": "green", "a ruby": "red",
}
MIXES = {
    ("blue", "yellow"): "green", ("red", "yellow"): "orange",
    ("red", "blue"): "purple", ("red", "white"): "pink",
    ("black", "white"): "grey", ("red", "green"): "brown",
    ("blue", "white"): "light blue",
}
COLOUR_NAMES = ["red", "blue", "green", "yellow", "orange", "purple", "pink",
                "white", "black", "brown", "grey"]

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
        "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July",
          "August", "September", "October", "November", "December"]
SEASONS = ["spring", "summer", "autumn", "winter"]

# question keys and answers: (phrasings, full answer, one word)
HOW_MANY = [
    ("days are there in a week", "There are seven days in a week.", "Seven"),
    ("months are there in a year", "There are twelve months in a year.",
     "Twelve"),
    ("hours are there in a day", "There are twenty-four hours in a day.",
     "Twenty-four"),
    ("minutes are there in an hour", "There are sixty minutes in an hour.",
     "Sixty"),
    ("seconds are there in a minute", "There are sixty seconds in a minute.",
     "Sixty"),
    ("seasons are there in a year", "There are four seasons in a year.",
     "Four"),
    ("wheels does a car have", "A car has four wheels.", "Four"),
    ("wheels does a bicycle have", "A bicycle has two wheels.", "Two"),
    ("fingers does a hand have", "A hand has five fingers.", "Five"),
    ("colours are there in a rainbow",
     "There are seven colours in a rainbow.", "Seven"),
    ("sides does a triangle have", "A triangle has three sides.", "Three"),
    ("sides does a square have", "A square has four sides.", "Four"),
    ("eggs are in a dozen", "There are twelve eggs in a dozen.", "Twelve"),
]

# weather: (ways to say it, what to wear or take, what to do)
WEATHER = {
    "rainy": (["It is raining", "It is rainy today", "There is heavy rain",
               "It rains outside"],
              "Take an umbrella and wear boots.",
              "You could stay inside and read a book."),
    "sunny": (["It is sunny", "The sun is shining", "It is a sunny day",
               "There is a lot of sun today"],
              "Wear a hat and sunglasses.",
              "You could have a picnic in the park."),
    "snowy": (["It is snowing", "There is snow outside", "It is snowy today",
               "There is a lot of snow"],
              "Wear a warm coat, gloves and boots.",
              "You could build a snowman."),
    "windy": (["It is windy", "The wind is strong", "It is very windy today",
               "There is a strong wind"],
              "Wear a jacket and hold on to your hat.",
              "You could fly a kite."),
    "cold": (["It is cold", "It is very cold today", "It is freezing outside",
              "It is cold outside"],
             "Wear a coat, a scarf and a warm hat.",
             "You could drink hot chocolate at home."),
    "hot": (["It is hot", "It is very hot today", "It is hot outside",
             "There is a heat wave"],
            "Wear light clothes and drink a lot of water.",
            "You could go for a swim."),
    "foggy": (["It is foggy", "There is thick fog", "It is foggy today",
               "I see only fog outside"],
              "Wear bright clothes so that people can see you.",
              "You could take a slow walk."),
    "stormy": (["There is a storm", "It is stormy", "There is thunder outside",
                "I hear thunder"],
               "Stay inside where it is safe.",
               "You could play a board game at home."),
}

# asked as "What is X?"
DEFINITIONS = {
    "rain": "Rain is water that falls from the clouds.",
    "snow": "Snow is frozen water that falls as soft white flakes.",
    "wind": "Wind is air that moves.",
    "fog": "Fog is a cloud that lies on the ground.",
    "thunder": "Thunder is the loud sound that lightning makes.",
    "a rainbow": "A rainbow is a bow of colours that the sun makes in the "
                 "rain.",
    "a cloud": "A cloud is made of tiny drops of water in the sky.",
    "the sun": "The sun is a star that gives us light and warmth.",
    "the moon": "The moon is a ball of rock that goes around the Earth.",
    "a star": "A star is a hot ball of gas that shines at night.",
    "a river": "A river is a long stream of water that flows to the sea.",
    "a mountain": "A mountain is a very high hill.",
    "an island": "An island is land with water all around it.",
    "a desert": "A desert is a dry place with little rain.",
    "a forest": "A forest is a place with many trees.",
    "the sea": "The sea is a very large body of salt water.",
    "ice": "Ice is water that is frozen.",
    "bread": "Bread is a food baked from flour and water.",
    "cheese": "Cheese is a food made from milk.",
    "honey": "Honey is a sweet food made by bees.",
    "a book": "A book is many pages with words to read.",
    "a computer": "A computer is a machine that works with numbers and words.",
    "music": "Music is sound that is nice to hear.",
    "a friend": "A friend is someone you like and trust.",
    "a school": "A school is a place where children learn.",
    "a language model": "A language model is a program that guesses the next "
                        "word.",
    "a bicycle": "A bicycle is a machine with two wheels that you ride.",
    "a clock": "A clock is a machine that shows the time.",
    "a garden": "A garden is a place where flowers and vegetables grow.",
    "a bridge": "A bridge is a path over water or over a road.",
}

# food: (kind, taste)
FOODS = {
    "apple": ("fruit", "sweet and fresh"), "banana": ("fruit", "sweet"),
    "lemon": ("fruit", "sour"), "orange": ("fruit", "sweet and juicy"),
    "pear": ("fruit", "sweet"), "cherry": ("fruit", "sweet"),
    "strawberry": ("fruit", "sweet"), "grape": ("fruit", "sweet"),
    "peach": ("fruit", "sweet and juicy"), "melon": ("fruit", "fresh"),
    "carrot": ("vegetable", "a little sweet"),
    "potato": ("vegetable", "mild"), "onion": ("vegetable", "sharp"),
    "cabbage": ("vegetable", "mild"), "cucumber": ("vegetable", "fresh"),
    "radish": ("vegetable", "sharp"), "leek": ("vegetable", "mild"),
    "spinach": ("vegetable", "a little bitter"),
    "broccoli": ("vegetable", "mild"), "garlic": ("vegetable", "sharp"),
}
COOKING = {
    "eggs": "You can make an omelette with eggs.",
    "flour": "You can make bread with flour.",
    "apples": "You can make an apple pie with apples.",
    "potatoes": "You can make mashed potatoes with potatoes.",
    "milk": "You can make pudding with milk.",
    "tomatoes": "You can make a soup with tomatoes.",
    "rice": "You can make fried rice with rice.",
    "strawberries": "You can make jam with strawberries.",
    "lemons": "You can make lemonade with lemons.",
    "carrots": "You can make a carrot cake with carrots.",
    "cheese": "You can make a sandwich with cheese.",
    "pumpkins": "You can make a pumpkin soup with pumpkins.",
}
MEALS = {
    "breakfast": "For breakfast you could eat bread with honey and drink a "
                 "glass of milk.",
    "lunch": "For lunch you could eat a bowl of soup and some bread.",
    "dinner": "For dinner you could eat rice with vegetables.",
    "dessert": "For dessert you could eat a piece of apple pie.",
    "a snack": "For a snack you could eat an apple or some nuts.",
}

# language: words; the answers bring other scripts into the vocabulary
LANGUAGES = {
    "French": ("bonjour", "merci", "au revoir", "oui"),
    "German": ("hallo", "danke", "auf Wiedersehen", "ja"),
    "Spanish": ("hola", "gracias", "adiós", "sí"),
    "Italian": ("ciao", "grazie", "arrivederci", "sì"),
    "Portuguese": ("olá", "obrigado", "adeus", "sim"),
    "Dutch": ("hallo", "dank je", "tot ziens", "ja"),
    "Swedish": ("hej", "tack", "hej då", "ja"),
    "Polish": ("cześć", "dziękuję", "do widzenia", "tak"),
    "Greek": ("γεια", "ευχαριστώ", "αντίο", "ναι"),
    "Korean": ("안녕하세요", "감사합니다", "안녕히 가세요", "네"),
    "Japanese": ("こんにちは", "ありがとう", "さようなら", "はい"),
    "Chinese": ("你好", "谢谢", "再见", "是"),
}
PHRASES = ["hello", "thank you", "goodbye", "yes"]

RHYMES = {
    "cat": "hat", "dog": "log", "sun": "fun", "star": "car", "tree": "bee",
    "house": "mouse", "night": "light", "rain": "train", "moon": "spoon",
    "cake": "lake", "king": "ring", "boat": "goat", "day": "play",
    "book": "cook", "ball": "wall", "bear": "chair", "fox": "box",
    "snow": "crow", "hen": "pen", "frog": "fog", "sky": "fly", "bed": "red",
    "door": "floor", "nose": "rose", "blue": "shoe", "green": "queen",
}

EMOJI = {
    "cat": "🐱", "dog": "🐶", "fox": "🦊", "bear": "🐻", "panda": "🐼",
    "lion": "🦁", "pig": "🐷", "frog": "🐸", "penguin": "🐧", "fish": "🐟",
    "sun": "☀️", "moon": "🌙", "star": "⭐", "rainbow": "🌈", "snowman": "⛄",
    "apple": "🍎", "banana": "🍌", "cake": "🍰", "pizza": "🍕", "heart": "❤️",
    "flower": "🌸", "tree": "🌳", "book": "📖", "rocket": "🚀", "smile": "😊",
}

LISTS = {
    "animals": "a dog, a cat and a horse", "fruits": "an apple, a pear and a "
    "banana", "vegetables": "a carrot, a potato and an onion",
    "colours": "red, blue and green", "countries": "France, Japan and Brazil",
    "birds": "an owl, a duck and an eagle", "flowers": "a rose, a tulip and a "
    "daisy", "trees": "an oak, a birch and a pine", "numbers": "one, two and "
    "three", "months": "January, February and March", "drinks": "water, milk "
    "and tea", "toys": "a ball, a doll and a kite", "cities": "Paris, Tokyo "
    "and Cairo", "sea animals": "a whale, a shark and a dolphin",
    "farm animals": "a cow, a pig and a sheep", "insects": "a bee, an ant and "
    "a butterfly", "tools": "a hammer, a saw and a knife",
    "instruments": "a piano, a violin and a drum",
}

POEMS = {
    "rain": "Little drops of rain come down,\nwashing all the roofs in town.\n"
            "When the sun comes out to play,\nall the puddles go away.",
    "the sun": "Golden sun up in the sky,\nyou are warm and you are high.\n"
               "When you set and say good night,\nstars come out and give us "
               "light.",
    "the moon": "Silver moon, so round and bright,\nyou are watching in the "
                "night.\nWhen I close my sleepy eyes,\nyou still shine across "
                "the skies.",
    "snow": "Soft white snow falls on the ground,\nsoft white snow without a "
            "sound.\nPut your hat and mittens on,\nplay before the snow is "
            "gone.",
    "a cat": "My small cat sleeps on the mat,\nsoft and warm and round and "
             "fat.\nWhen I come back home at three,\nshe will purr and sit "
             "with me.",
    "a dog": "My good dog runs fast and far,\nchasing every passing car.\n"
             "When the day is almost done,\nhe comes home from all the fun.",
    "a tree": "Tall old tree beside the lake,\nhow your leaves and branches "
              "shake.\nBirds come home to you to rest,\nin your arms they "
              "build a nest.",
    "the sea": "Blue and green and deep and wide,\nwaves roll in with every "
               "tide.\nShells are lying on the sand,\nand I hold one in my "
               "hand.",
    "spring": "Spring is here, the birds all sing,\nflowers grow and church "
              "bells ring.\nEvery field is fresh and green,\nprettiest that I "
              "have seen.",
    "autumn": "Leaves are falling, red and brown,\nfrom the trees all over "
              "town.\nApples ripe and pumpkins round,\nnuts are lying on the "
              "ground.",
    "a friend": "When I laugh, you laugh with me,\nsitting by the apple tree.\n"
                "When I cry, you hold my hand,\nfriends like you will "
                "understand.",
    "stars": "Tiny stars, so far away,\nwhere do you go in the day?\nWhen the "
             "night comes, dark and deep,\nyou are there to guard my sleep.",
}

NAMES = """Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Mia
Noah Olivia Paul Rosa Sam Tina Tom Lucy Max Nora Oscar Peter Ruth Simon Sofia
Victor Wendy Alice Bob Carol Daniel Ella Frank Hanna Ivan Julia Karl Laura Mark
Nina Otto Paula Robert Sara Tim Vera Will Adam Beth Chris Diana Eric Fiona
George Helen Jan Jane John Kim Lena Lily Luke Maria Martin Mary Nick Omar Pia
Ravi Rita Susan Theo Uma Yuki Zoe Minji Jun Hana Ahmed Fatima Chen Mei Priya
Arjun Lars Ingrid Pablo Carmen Pierre Marie Giulia Marco Olga Boris Kofi Ama
Molly Toby Ruby Jasper Hazel Oliver Penny Charlie Daisy Milo Bella Rocky Luna
Coco Teddy Rosie Finn Pip Poppy Bruno Ollie Fern Basil Biscuit Pepper Ginger
Maple Willow Sunny Misty Shadow Snowy Fluffy Lucky Buddy Lola Nala Simba""".split()

STORY_ANIMALS = ["fox", "bear", "cat", "dog", "mouse", "rabbit", "owl", "duck",
                 "frog", "hedgehog", "squirrel", "penguin", "turtle", "pig",
                 "wolf", "lion", "elephant", "panda", "bee", "horse"]

# A first sentence, a second and a third; {n} is the name, {a} the animal with
# its article, {p} and {o} a place and an object chosen with the plot.
STORIES = [
    ("Once upon a time there was {a} named {n} who lived {p}. One day {n} "
     "found {o} and did not know whose it was. {n} asked everyone until a "
     "happy friend came to take it home."),
    ("{n} was {a} who lived {p}. One cold morning {n} met a lost little bird "
     "and shared {o} with it. From that day on the two were best friends."),
    ("There once was {a} called {n} who was afraid of the dark. One night a "
     "friendly star came down {p} and gave {n} {o}. After that {n} slept well "
     "every night."),
    ("{n} was {a} who wanted to see the world. So {n} packed {o} and walked "
     "for three days until the sea came into sight. Then {n} went back home "
     "{p} and told everyone about it."),
    ("Once {a} named {n} lost {o}. {n} looked everywhere {p} but could not "
     "find it. In the end it was under the bed, and {n} laughed out loud."),
    ("{n} was the smallest {k} of all and lived {p}. When a storm came, only "
     "{n} could slip through a hole and bring back {o}. Then everyone said "
     "that small is not the same as weak."),
    ("Every day {a} named {n} sat {p} and sang a song. A king heard it and "
     "gave {n} {o} as a present. {n} thanked the king and sang even better."),
    ("{n} was {a} who had a birthday {p}. All the friends came and brought "
     "{o}. They danced until the moon came up."),
]
PLACES = ["in a quiet forest", "by a blue lake", "on a green hill",
          "near an old mill", "in a small village", "at the edge of a meadow",
          "under a tall oak tree", "beside a river"]
OBJECTS = ["a red ball", "a warm blanket", "a golden key", "a loaf of bread",
           "a basket of apples", "a little lamp", "a blue hat",
           "a jar of honey", "a silver bell", "a paper boat"]
