"""What is read from the words of a prompt, of which pictures are made."""

from fairlead_partners.procedural.scenery.subject import Figure, read


def test_words_are_read_with_synonyms_plurals_and_negations() -> None:
    """Synonyms and plurals mean the same; what is negated is refused; numbers and colours go to their figures."""
    subject = read("Three white horses on a foggy shore at sunset, no people, without clouds")
    assert subject.places == ("sea",)
    assert subject.figures == (Figure("horse", 3, "f4f3ee"),)
    assert (subject.conditions, subject.time, subject.colours) == (("fog",), "dusk", ())
    assert {"person", "cloudy"} <= subject.refused
    assert read("not a city but a forest in autumn").places == ("forest",)
    assert read("starry sky").time == "night"
    assert read("a green field under a violet sky").colours == ("7d4bb8",)
    assert not read("seventeen abstractions").is_place
