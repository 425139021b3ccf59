"""Names, sentence templates and tags of the generated newswire; no code draws anything here.

A template is a weight and a row of tokens. `@` is the entity the sentence is about, `@2` a second one;
`[ ... ]` is the span of the first entity when it is more than its name; `%slot` is filled from FILLERS, or
from a rule for names and numbers. Every other token is a word; its part of speech stands in TAGS,
else it is NNP with a capital and NN without.
The templates under NEUTRAL, PAIRS and HEADLINES suit a person, a place and an organisation alike.
"""

from __future__ import annotations

NAMES = {
    "ANY": """Washington Paris Chelsea Lincoln Jordan Santos Hamilton Phillips Houston Austin Jackson
Madison Cleveland Lancaster York Bristol Preston Boston Dallas Florence Victoria Sydney Georgia Carolina
Kent Essex Ford Morgan Stanley Barclay Heinz Dell Disney Siemens Bosch Porsche Ferrari Valencia Everton
Milan Lens Nancy Vicenza Lyon Orlando Columbus Raleigh Durham Wellington Nelson Darwin Perth Hastings
Warwick Stafford Montgomery Denver Lexington Burlington Arlington Kingston""".split(),
    "PER": """Clinton Yeltsin Arafat Netanyahu Dole Gore Major Kohl Chirac Mandela Peres Havel Mubarak
Hussein Assad Gaddafi Blair Schroeder Prodi Becker Agassi Sampras Hingis Seles Graf Chang Shearer Klinsmann
Cantona Ronaldo Baggio Woosnam Faldo Montgomerie Tyson Holyfield Schumacher Villeneuve Gascoigne Wasim
Tendulkar Lara Warne Atherton Rubin Greenspan Murdoch Albright Primakov Lebed""".split(),
    "LOC": """London Moscow Berlin Tokyo Beijing Baghdad Jerusalem Cairo Nairobi Lagos Lima Bogota Havana
Madrid Lisbon Rome Vienna Prague Warsaw Budapest Sofia Athens Ankara Tehran Kabul Delhi Bombay Karachi Dhaka
Jakarta Manila Seoul Taipei Iraq Iran Syria Israel Russia Germany France Britain Italy Spain Brazil Mexico
Kenya Rwanda Burundi Chechnya Bosnia""".split(),
    "ORG": """Microsoft Intel Compaq Boeing Airbus Toyota Nissan Sony Hitachi Fiat Renault Volvo Nokia
Ericsson Unilever Nestle Novartis Bayer Glaxo Shell Texaco Exxon Lufthansa Iberia Qantas Ajax Juventus
Benfica Celtic Rangers Arsenal Lazio Parma Feyenoord Motorola Fujitsu Toshiba Samsung Hyundai Daewoo Mazda
Honda Peugeot Alcatel Olivetti Pirelli Roche Ciba Reuters""".split(),
}
MISC = {
    "nation": """American British French German Russian Italian Spanish Dutch Swedish Israeli Palestinian
Iraqi Iranian Turkish Greek Chinese Japanese Korean Indian Pakistani Australian Brazilian Mexican Nigerian
Kenyan Serb""".split(),
    "event": """World Cup|Davis Cup|Grand Prix|European Championship|Champions Trophy|Nobel Prize|Ryder Cup|
Olympics|Masters|Ashes|Commonwealth Games|Premier League|Super Bowl""".split("|"),
}

SYLLABLES = """ba bel cor dal dra fen gar hol jas kel kor lan lor mar mel nor or pel ras ro sal tor ul val
ver zan thi bri cla wen du mi gos tre""".split()
ENDINGS = {
    "ANY": "dan nor bel rin mar lis ger dell".split(),
    "PER": "enko ovski ssen ez ovic opoulos".split(),
    "LOC": "ville burg grad shire port abad".split(),
    "ORG": "tek soft bank dyne com air".split(),
}

CLEAR = {
    "PER": """
4 %title [ %first @ ] said %when that %claim .
3 [ %first @ ] , %age , %did %when .
2 %role [ %first @ ] %did after %trouble in %place %when .
2 [ %first @ ] , a %role from %place , told reporters %when that %claim .
2 " %quote , " said [ %first @ ] , a %adj %role .
1 Mr. @ and his wife left for %place %when .
1 Mrs. @ , who was born in %place , %did %when .
2 police in %place questioned [ %first @ ] about %topic %when .
2 the %role , [ %first @ ] , was taken to hospital %when after %trouble .
1 judge [ %first @ ] ruled %when that %claim .
2 [ %first @ ] scored twice as %place %did %when .
2 %nation %role [ %first @ ] %did %when , officials said .
1 his lawyer said %when that [ %first J. @ ] was innocent .
1 [ %first @ ] ( %place ) beat %person ( %place ) %score %score""",
    "LOC": """
3 the city of @ was calm %when after %trouble .
2 thousands marched through downtown @ %when to protest against %topic .
2 @ , a town in northern %place , was hit by %trouble %when .
2 residents of @ said %when that %claim .
2 the mayor of @ , %person , %did %when .
2 %person travelled to @ from %place %when for talks on %topic .
2 %trouble closed the airport near @ %when .
2 at least %number people were killed in @ %when , police said .
2 %number refugees crossed the border into @ %when .
1 @ province has a population of %number , mostly %nation .
1 troops advanced north of @ %when after %trouble .
1 the ministry said %number schools across @ would close in %month .
2 %person was born in @ in %year and became a %role .
1 a %adj storm moved towards the coast of @ %when .""",
    "ORG": """
4 [ @ %suffix ] said %when that %claim .
3 shares of @ rose %percent percent to %money %when .
2 [ @ %suffix ] reported a net profit of %money million for %year .
2 @ , which employs %number people in %place , %did %when .
2 the board of @ approved %topic %when .
2 %person , chief executive of @ , said %claim .
2 @ spokesman %person said %when that %claim .
1 %place court fined [ @ %suffix ] %money million over %topic .
2 @ coach %person said the players were ready for the %event .
1 [ @ %suffix ] will buy %company for %money million , analysts said .
2 workers at @ went on strike %when over %topic .
1 the %nation firm @ opened an office in %place %when .
1 @ striker %person scored in the %event final %when .
1 profits at @ fell %percent percent in %year , %person said .""",
}
NEUTRAL = """
3 @ declined to comment %when .
3 @ won %score %when after a %adj %contest .
3 @ said %when that %claim .
2 " %quote , " @ said %when .
2 talks with @ are due to resume in %month .
2 @ lost the %contest %when but remained confident .
2 it was the third victory for @ since %month .
2 analysts expect @ to act on %topic before %month .
2 critics of @ said %when that %claim .
1 @ has not yet replied to questions about %topic .
2 the decision was a %adj blow to @ , officials said .
1 a source close to @ said that %claim .
1 " %quote , " said one rival of @ %when .
1 @ faces a %adj test in %month over %topic .
2 relations with @ have been %adj since %year .
1 supporters of @ said %when they were disappointed .
1 nobody at the meeting blamed @ for %trouble .
1 later @ rejected the report on %topic as false .
2 the %contest ended with @ in second place .
1 %person wrote to @ %when about %topic .
1 under the plan @ would pay %money million by %year .
2 @ then dropped to %number points , two behind the leader .
1 %nation newspapers praised @ %when for %topic .
1 for @ the %contest began badly , with %trouble .
1 this time @ was ready and %did .
1 the debt owed by @ stood at %money million .
1 what happened next to @ is not known , %person said ."""
PAIRS = """
3 @ beat @2 %score %when .
2 @ and @2 agreed %when to work together on %topic .
2 @ accused @2 %when of ignoring %topic .
2 talks between @ and @2 ended %when without agreement .
1 @ finished ahead of @2 with %number points .
1 neither @ nor @2 would comment on %topic .
1 the %contest between @ and @2 was %adj .
1 @ owes @2 about %money million , officials said .
1 @ replaced @2 in the %event %when .
1 unlike @2 , @ has supported %topic since %year ."""
HEADLINES = """
2 @ wins %adj %contest in %month
2 @ faces new questions over %topic
1 @ says no deal on %topic
1 no decision yet from @ on %topic
1 @ ready for %event , officials say
1 pressure on @ grows after %trouble
1 @ loses ground in %adj %contest
1 %nation envoy praises @ over %topic"""
OTHER = """
3 officials said %when that %claim .
2 the %nation government %did %when .
2 " %quote , " a spokesman said %when .
2 traders said the dollar rose to %money %when .
2 %person , the %nation %role , %did %when .
1 the next %event will be held in %place in %month .
2 police said %number people were injured in %trouble .
1 it was the worst result for %place since %year .
1 %company and %company announced %topic %when .
2 the %adj %contest drew %number people to %place .
1 %number %nation soldiers left %place %when .
1 the ministry gave no details of %topic .
1 at the close , %company was at %money , up %percent percent .
1 %place %score %place ( halftime %score )
1 he said the %nation people wanted %topic .
1 the weather will be %adj in %place %when ."""
REPORTED = "1 reported by %person in %place , %month %date , %year"

_FILLERS = {
    "first": """Bill|Boris|John|Mary|Anna|Peter|Paul|David|Michael|Susan|Karen|Linda|Robert|
James|Thomas|Richard|Helen|Laura|Maria|Jose|Carlos|Juan|Pedro|Luis|Marco|Paolo|Franco|Hans|
Klaus|Jurgen|Pierre|Jean|Michel|Yuri|Ivan|Igor|Vladimir|Ahmed|Ali|Omar|Hassan|Yasser|Kenji|
Hiroshi|Wei|Ming|Raj|Anil|Sanjay|Nelly|Greg|Steve|Mark|Colin|Darren|Alan|Brian|Kevin|Ruth|
Ellen""",
    "suffix": "Corp.|Inc.|Ltd|Group|Holdings|Co.|plc|Industries|United|FC|Rovers",
    "when": """on %day|on %day|on %day|late on %day|early on %day|last week|in %month|this week|%day|
two weeks ago|in late %month|after the meeting|before dawn on %day""",
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "month": "January|February|March|April|May|June|July|August|September|October|November|December",
    "title": "President|Prime Minister|Foreign Minister|Senator|General|Governor|Chancellor|Dr.|Mr.",
    "role": """lawyer|doctor|goalkeeper|teacher|striker|novelist|judge|poet|banker|cyclist|diplomat|
surgeon|farmer|golfer|sprinter|minister|builder|critic""",
    "adj": "long|bitter|close|difficult|quiet|tense|surprising|poor|strong|new|crucial|cold|historic|narrow",
    "contest": "vote|match|race|campaign|contest|debate|season|game|appeal|battle",
    "topic": """the budget|the new contract|trade|security|the %event|human rights|%nation exports|
oil prices|the merger|the peace plan|tax cuts|the sale of %company|the arms deal|wages|the %adj report|
the visit of %person|nuclear tests|the election""",
    "trouble": """a %adj strike|heavy rain|a bomb blast|flooding|an injury|a fire|the clashes|a %adj start|
the scandal|a shooting|the %nation protest|an accident""",
    "claim": """there was no plan to discuss %topic|%topic would be delayed until %month|
the %nation side had agreed|%number jobs would be lost|the %contest was over|
%place would not change its position on %topic|costs had doubled|nothing had been decided|
the situation was %adj|%person had asked for more time|it could not accept %topic""",
    "quote": """We are ready for the %contest|There is nothing new in this|It was a %adj day for everybody|
We have to wait and see|This is about %topic|I think the %contest will be %adj|
We will not talk about %topic|The %nation side must decide|It is too early to say|
We never discussed %topic with %company""",
    "did": """won the %contest|retired from the %event|arrived in %place|rejected the offer|
signed the agreement|lost the %contest|met %nation officials|called for calm|withdrew from the %event|
opposed %topic|paid %money million|returned to %place|apologised for %trouble""",
}
FILLERS = {slot: phrases.split("|") for slot, phrases in _FILLERS.items()}

# Lowest and highest value, and how one or two drawn numbers are printed.
NUMBERS = {
    "age": (18, 80, "{:.0f}"),
    "year": (1970, 1999, "{:.0f}"),
    "number": (2, 400, "{:.0f}"),
    "money": (1, 90, "{:.1f}"),
    "percent": (1, 20, "{:.1f}"),
    "date": (1, 28, "{:.0f}"),
    "score": (0, 5, "{:.0f}-{:.0f}"),
}

_WORDS_BY_TAG = {
    "DT": "the a an no this neither",
    "IN": """about across after against as at before behind between by for from in into near of on over
since that through towards under unlike until with without""",
    "CC": "and but nor",
    "NNP": "plc",
    "TO": "to",
    "MD": "could must will would",
    "EX": "there",
    "CD": "million one two",
    "WP": "what who which",
    "PRP": "he i it they we",
    "PRP$": "his its",
    "RB": "ago ahead badly early later mostly never not then together too twice up yet",
    "JJ": """bitter chief close cold confident crucial difficult disappointed downtown due false final heavy
historic human innocent last late least long more narrow net new next northern nuclear poor quiet ready
second strong surprising tense third worst""",
    "VB": "accept act be buy change decide discuss pay resume say see talk think wait work",
    "VBD": """accused advanced agreed announced apologised approved arrived asked beat became began blamed
called closed crossed declined doubled drew dropped ended fell fined finished gave had happened left lost
marched met moved opened opposed paid praised questioned rejected remained replaced replied reported retired
returned rose ruled said scored signed stood supported told travelled wanted was went were withdrew won
wrote""",
    "VBN": "been born decided delayed discussed held hit injured killed known owed taken",
    "VBG": "ignoring",
    "VBP": "are expect have",
    "VBZ": "employs faces grows has is loses owes praises says wins",
    "NNS": """analysts arms clashes costs critics cuts details exports jobs newspapers officials people
players points prices profits questions refugees relations reporters residents rights schools shares
soldiers supporters talks tests thousands traders troops wages weeks workers""",
    '"': '"',
    "(": "(",
    ")": ")",
    ",": ",",
    ".": ".",
}
TAGS = {word: tag for tag, words in _WORDS_BY_TAG.items() for word in words.split()}


# -- Topics, their subjects and the forms of titles of the generated citations; no code draws anything here ---
#
# A template is a row of tokens: `%subject` is what the paper is about and is filled from SUBJECTS; `%how`, `%what` and
# `%where` are filled from FILLERS, whose phrases suit every topic. Every other token is a word.
# Words stand in several lists where they do in life: images are recognised, and so is speech.

ANY = "any topic"  # subjects that every topic has

_SUBJECTS = {
    "databases": """query optimisation|join ordering|index structures|transaction processing|data cleaning|schema
matching|stored views|column stores|concurrency control|materialised views|record linkage|data warehouses|range queries|
query languages|crash recovery|access methods|relational algebra|key constraints|data streams|duplicate detection""",
    "networks": """packet routing|congestion control|wireless links|peer discovery|queue management|sensor networks|
network protocols|mobile hosts|traffic shaping|packet loss|multicast trees|bandwidth sharing|address translation|
overlay networks|link failures|router buffers|channel access|flow control|traffic traces|delay bounds""",
    "vision": """image segmentation|object recognition|stereo matching|optical flow|face detection|edge detection|
texture synthesis|camera calibration|shape models|scene reconstruction|image retrieval|motion tracking|colour constancy|
medical images|surface normals|video streams|image compression|gesture recognition|depth maps|feature matching""",
    "language": """machine translation|speech recognition|word senses|grammar induction|text categorisation|dependency
parsing|named entities|question answering|language models|discourse structure|text summaries|pronoun resolution|
morphology|document retrieval|dialogue systems|spelling correction|parallel texts|sentence alignment|topic detection|
speech synthesis""",
    "robotics": """motion planning|robot navigation|grasp planning|legged walking|obstacle avoidance|mobile robots|
robot arms|map building|sensor fusion|object manipulation|joint control|visual servoing|robot teams|inverse kinematics|
underwater vehicles|collision detection|path following|force control|exploration|trajectory tracking""",
    "security": """key exchange|intrusion detection|access control|digital signatures|secret sharing|block ciphers|
network attacks|malware detection|password guessing|secure channels|zero knowledge|trusted hardware|privacy policies|
stream ciphers|code injection|public keys|anonymous routing|smart cards|audit logs|random numbers""",
    ANY: """graphs|large systems|search|noisy data|time series|hierarchies|sampling|trees|constraints|patterns|
learning|uncertainty|clusters|distributed systems|user models|caching|simulation|features|rules|approximate matching|
resource allocation|scheduling|feedback|mixtures|partial information""",
}
SUBJECTS = {topic: [" ".join(phrase.split()) for phrase in phrases.split("|")] for topic, phrases in _SUBJECTS.items()}
TOPICS = tuple(topic for topic in SUBJECTS if topic != ANY)

TEMPLATES = tuple(
    line.split()
    for line in """
%how %subject
%how %subject %where
%how %subject for %subject
%what for %subject and %subject
%subject %where : %what
%subject and %subject
%subject without %subject
from %subject to %subject
on %subject %where
towards %how %subject with %subject
%how %subject by way of %subject
beyond %subject : %what for %subject
%subject , %subject and %subject : %what
""".strip().splitlines()
)
_CITATION_FILLERS = {
    "how": """adaptive|fast|robust|efficient|scalable|practical|optimal|incremental|parallel|lightweight|statistical|
real-time|online|probabilistic|automatic|simple|unified|hierarchical""",
    "what": """a new approach|an empirical study|a framework|theory and practice|some lessons|a survey|lower bounds|
open problems|a benchmark|new tools|a second look|better methods|foundations|old ideas""",
    "where": """at scale|in practice|under uncertainty|in linear time|with little memory|from examples|in the wild|
revisited|with guarantees|on small devices|over many years""",
}
CITATION_FILLERS = {
    slot: [" ".join(phrase.split()) for phrase in text.split("|")] for slot, text in _CITATION_FILLERS.items()
}
