"""Networks from images to maps of features, one file each, registered by their function's name.

Comes in: a Setting (weights, image size, generator) and own options. Goes out: a Backbone with its Preprocessing.
May import: model.backbone, model.weights, registry, values, torch; timm inside functions only.
To add one: a function ``mine(setting, *, option=default)`` under ``@register_backbone`` and a test of that name.
"""
