"""A machine of your own: what it makes of a program, and which shardings it wants.

    python examples/library/device_model.py
    shard-report in.mlir --load-plugin=examples/library/device_model.py --device-model=rack

Beside a name and a file, each function takes the model itself.
"""

import shard_dialect as sd

RACK = sd.DeviceModel(
    name="eight accelerators a host, hosts by Ethernet",
    flops={"f32": 60e12, "bf16": 400e12},
    memory_bytes=48 * 10**9,
    memory_bytes_per_second=1.2e12,
    network=[
        sd.NetworkLevel("bridge", devices=2, bytes_per_second=200e9, latency=2e-6),
        sd.NetworkLevel("PCIe", devices=8, bytes_per_second=25e9, latency=5e-6),
        sd.NetworkLevel("Ethernet", devices=None, bytes_per_second=3e9, latency=30e-6),
    ],
)
sd.register_device_model("rack", RACK)  # its name for the command line

MODULE = """
shard.grid @g(shape = 4x2) {axis_names = ["hosts", "bridge"]}
func.func @main(%x: tensor<1024x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %0 : tensor<1024x1024xf32>
}
"""

if __name__ == "__main__":
    module = sd.mutate(sd.parse(MODULE), "x=[[], [bridge]]")
    near = sd.report(module, device_model=RACK)
    far = sd.report(sd.mutate(sd.parse(MODULE), "x=[[], [hosts]]"), device_model="rack")
    print(near, far, sep="\n\n")
    assert near.schedule.total < far.schedule.total
    found = sd.auto(sd.parse(MODULE), device_model=RACK, plans=30)
    print(found)
    assert found.costs.seconds <= near.schedule.total
