"""A method of your own, as a function and by name: python examples/own_method.py FOLDER"""

import sys

import focalsweep as fs


def lowest_plane(stack, planes, options):  # type: ignore[no-untyped-def]
    volume = fs.cost_volume(stack, planes, workspace=options.workspace)  # B D H W
    depth = planes.depths.to(volume)[volume.argmin(1)]  # B H W
    return fs.DepthPrediction(depth, std=0.1 * depth, confidence=0.5 + 0 * depth)


if __name__ == "__main__":
    print(fs.estimate_depth(sys.argv[1], method=lowest_plane).depth)
    fs.register_method("lowest_plane", lowest_plane, about="the plane of the lowest cost")
    print(fs.estimate_depth(sys.argv[1], method="lowest_plane:planes=32").depth)
