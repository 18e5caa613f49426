from paddle import nn


def build(config):
    return nn.Sequential(nn.Conv2D(3, config["classes"], 3, padding=1))


def total(x):
    return x.sum(axis=[0, 1, 2])


def overlap(p, hot, smooth=1.0):
    return (2.0 * total(p * hot) + smooth) / (total(p + hot) + smooth)


def loss(outputs, inputs):
    labels, classes = inputs["labels"], outputs.shape[1]
    known = (labels != 255).unsqueeze(-1).astype(outputs.dtype)
    log_p = nn.functional.log_softmax(outputs.transpose([0, 2, 3, 1]))
    hot = nn.functional.one_hot(labels.clip(max=classes - 1), classes) * known
    entropy = -(hot * log_p).sum() / known.sum()
    return 1.0 - overlap(log_p.exp() * known, hot).mean() + entropy
