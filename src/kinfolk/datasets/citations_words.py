"""Topics, their subjects and the forms of titles of the generated citations; no code draws anything here.

A template is a row of tokens: `%subject` is what the paper is about and is filled from SUBJECTS; `%how`, `%what` and
`%where` are filled from FILLERS, whose phrases suit every topic. Every other token is a word.
Words stand in several lists where they do in life: images are recognised, and so is speech.
"""

from __future__ import annotations

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
_FILLERS = {
    "how": """adaptive|fast|robust|efficient|scalable|practical|optimal|incremental|parallel|lightweight|statistical|
real-time|online|probabilistic|automatic|simple|unified|hierarchical""",
    "what": """a new approach|an empirical study|a framework|theory and practice|some lessons|a survey|lower bounds|
open problems|a benchmark|new tools|a second look|better methods|foundations|old ideas""",
    "where": """at scale|in practice|under uncertainty|in linear time|with little memory|from examples|in the wild|
revisited|with guarantees|on small devices|over many years""",
}
FILLERS = {slot: [" ".join(phrase.split()) for phrase in text.split("|")] for slot, text in _FILLERS.items()}
