"""Pack and read images with many machines: Dask, Ray, Spark, or processes and threads of this one.

    from shalefs import distributed

    distributed.create("/shared/tree", "/shared/tree.shale", engine="dask", client=client)

    with shalefs.open("/shared/tree.shale") as image:
        for path, data in distributed.partitions(image, 8)[0]:
            print(path, len(data))

The engine starts the work, and starts it again where a worker failed. This package decides what a piece of work is.
"""

from ._create import DistributedReport, PartReport, create
from ._partitions import Partition, dask_bag, partitions, ray_dataset, spark_rdd

__all__ = ["DistributedReport", "PartReport", "Partition", "create", "dask_bag", "partitions", "ray_dataset",
           "spark_rdd"]
