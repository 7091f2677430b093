"""The rivals as methods of `focalsweep`, by the entry point `focalsweep.methods`."""

from __future__ import annotations

from functools import partial

from focalsweep.methods.method import Method, Options
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack


def _suwajanakorn(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    from focalsweep_research.rivals.suwajanakorn import suwajanakorn_depth

    return suwajanakorn_depth(stack, planes, options)


def _network(stack: FocalStack, planes: DepthGrid, options: Options, name: str) -> DepthPrediction:
    from focalsweep_research.rivals.networks import network_depth

    return network_depth(stack, planes, options, name)


def _check_weights(name: str) -> None:
    from focalsweep_research.rivals.networks import find_weights

    find_weights(name)


def _trained(name: str, about: str) -> Method:
    check = partial(_check_weights, name)
    return Method(name, about, partial(_network, name=name), check=check, reads_displayed=True)


SUWAJANAKORN = Method("suwajanakorn", "re-blurs its own sharp picture, with a Markov field (2015)", _suwajanakorn)
DDFF = _trained("ddff", "a network over the frames (Hazirbas 2018), with weights of yours")
DEFOCUSNET = _trained("defocusnet", "blur maps, then depth (Maximov 2020), with weights of yours")
AIFDEPTHNET = _trained("aifdepthnet", "attention over the frames (Wang 2021), with weights of yours")
AIFDEPTHNET_AIF = _trained("aifdepthnet-aif", "the same, trained by sharp pictures alone")
