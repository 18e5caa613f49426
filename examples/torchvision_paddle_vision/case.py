"""Networks of torchvision against those of paddle.vision, each as it is published.

NumPy only.  `model` is the function that builds it, by the same name in both packages; `corrected`
takes out of paddle.vision's SqueezeNet what makes it another model.
"""

import numpy as np

# At this size, as at 224, every pool of SqueezeNet comes out even: paddle.vision's do not round up.
_BASE = {"classes": 10, "size": 48, "corrected": True}
CONFIGS = {
    name: _BASE | {"model": name}
    for name in ("resnet50", "mobilenet_v2", "squeezenet1_1", "densenet121")
}
CONFIGS["default"] = CONFIGS["resnet50"]
# As large as in everyday use: ImageNet's images and classes.
_FULL = _BASE | {"classes": 1000, "size": 224}
CONFIGS["resnet18_224"] = _FULL | {"model": "resnet18"}  # 11,689,512 parameters
CONFIGS["resnet50_224"] = _FULL | {"model": "resnet50"}  # 25,557,032 parameters
# With what paddle.vision does otherwise, which the check then names.
CONFIGS["squeezenet1_1_as_published"] = CONFIGS["squeezenet1_1"] | {"corrected": False}


def _squeezenet():
    """paddle.vision's fire modules are counted from 1; torchvision's stand among the pools."""
    names = {"_conv": "features.0", "_conv9": "classifier.1"}
    for i, place in enumerate((3, 4, 6, 7, 9, 10, 11, 12), start=1):
        names[f"_conv{i}._conv._conv"] = f"features.{place}.squeeze"
        names[f"_conv{i}._conv_path1._conv"] = f"features.{place}.expand1x1"
        names[f"_conv{i}._conv_path2._conv"] = f"features.{place}.expand3x3"
    return names


def _densenet121():
    """paddle.vision's layers hold a norm and its convolution; torchvision numbers both."""
    names = {
        "conv1_func._conv": "features.conv0",
        "conv1_func._batch_norm": "features.norm0",
        "batch_norm": "features.norm5",
        "out": "classifier",
    }
    for block, layers in enumerate((6, 12, 24, 16), start=1):
        for i in range(1, layers + 1):
            here = f"db_conv_{block + 1}.conv{block + 1}_{i}"
            there = f"features.denseblock{block}.denselayer{i}"
            for j in (1, 2):
                names[f"{here}.bn_ac_func{j}._batch_norm"] = f"{there}.norm{j}"
                names[f"{here}.bn_ac_func{j}._conv"] = f"{there}.conv{j}"
        here, there = f"tr_conv{block + 1}_blk.conv_ac_func", f"features.transition{block}"
        names[f"{here}._batch_norm"] = f"{there}.norm"
        names[f"{here}._conv"] = f"{there}.conv"
    return names


# Names of ResNet and MobileNet are the same.  Every name is below `network`, see the two models.
RENAME = {
    f"network.{paddle}": f"network.{torch}"
    for paddle, torch in (_squeezenet() | _densenet121()).items()
}


def make_inputs(config, seed):
    """images (B, 3, S, S) float, labels (B)"""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((2, 3, config["size"], config["size"]))
    return {"images": images, "labels": rng.integers(0, config["classes"], 2)}
