"""From a folder of class folders to a search: python examples/photos_to_search.py photos/ query.jpg."""

import argparse

import similis

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("photos", help="folder of class folders")
parser.add_argument("query", help="an image file")
parser.add_argument("--backbone", default="tf_efficientnet_lite0", help="any timm name")
parser.add_argument("--weights", default="pretrained", help="pretrained, a file, or none")
parser.add_argument("--size", type=int, default=128, help="pixels of a side")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=60)
asked = parser.parse_args()

result = similis.train({
    "data": {"source": asked.photos, "validation_share": 0.2},
    "model": {
        "backbone": asked.backbone, "weights": None if asked.weights == "none" else asked.weights,
        "image_size": asked.size, "dim": None,
    },
    "training": {"epochs": asked.epochs, "batch_size": asked.batch},
})  # fmt: skip
for row in result.before:  # the network before training, on the same classes
    print(f"unseen classes, before training at {row['pixels']} pixels: R@1 {100 * row['recall@1']:.1f} %")
print(f"unseen classes, trained at {asked.size} pixels: R@1 {100 * result.test['recall@1']:.1f} %")

model = similis.load(result.folder)
model.add(similis.open_data(asked.photos))  # each photo is embedded once
for hit in model.search(asked.query, k=5, copies=False):
    print(f"{hit.similarity:.3f}  {hit.label}  {hit.id}")
print(model.classify(asked.query))  # label=None: like none of the classes
model.enrol([asked.query], "a new product")  # a new class, without training
model.save("my-model")  # similis.load("my-model") reads it, gallery included
