import pytest

from metrics.model.status import BY_LABEL, CONSUMER_MAX, HELP, STREAMS_CODES, RebalanceStatus

# the table of KAFKA-12472, as it stands there
TABLE = {
    0: "None",
    1: "CoordinatorRequested",
    2: "NewMember",
    3: "UnknownMember",
    4: "StaleMember",
    5: "DroppedGroup",
    6: "UserRequested",
    7: "MetadataChanged",
    8: "SubscriptionChanged",
    9: "RetryOnError",
    10: "RevocationNeeded",
    11: "AssignmentProbing",
    12: "VersionProbing",
    13: "EndpointUpdate",
}


def test_codes_and_names_are_those_of_kafka_12472() -> None:
    assert {code.value: code.label for code in RebalanceStatus} == TABLE


def test_names_lead_back_to_their_codes() -> None:
    assert {code.label: code for code in RebalanceStatus} == BY_LABEL


def test_consumer_takes_0_to_10_and_a_streams_layer_10_to_13() -> None:
    assert CONSUMER_MAX == 10
    assert STREAMS_CODES == (10, 11, 12, 13)


@pytest.mark.parametrize("code", RebalanceStatus)
def test_every_code_has_one_sentence_of_help(code: RebalanceStatus) -> None:
    assert code.help == HELP[code]
    assert code.help[0].islower()
    assert not code.help.endswith(".")
