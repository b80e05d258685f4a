import os
import time

if os.environ.get("PET_NODE_RANK") == "1":
    raise FileNotFoundError("/data/train.csv")
time.sleep(60)
