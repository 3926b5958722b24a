"""Joins two network namespaces by a TUN device in each, and holds every packet back for a while.

Arguments: namespace and namespace, address and address, delay and the most that is added to it by chance, in s; packets
overtake each other then. Ends when it is killed, or with its parent.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def tun(namespace, address, peer):
    with open(f"/run/netns/{namespace}") as place:
        if libc.setns(place.fileno(), 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"wan0", IFF_TUN | IFF_NO_PI))
    for line in (f"link set wan0 mtu 1500 txqueuelen 1000 up", f"addr add {address}/32 peer {peer}/32 dev wan0"):
        subprocess.run(["ip"] + line.split(), check=True)
    return device


a, b, address_a, address_b, delay, jitter = sys.argv[1:7]
delay, jitter = float(delay), float(jitter)
chance = random.Random(26)
number = 0  # keeps packets that are due at the same time in their order
ends = [tun(a, address_a, address_b), tun(b, address_b, address_a)]
other = {ends[0]: ends[1], ends[1]: ends[0]}
held = []
print("ready", flush=True)
while True:
    wait = max(0.0, held[0][0] - time.monotonic()) if held else None
    readable, _, _ = select.select(ends, [], [], wait)
    for end in readable:
        try:
            while True:
                packet = os.read(end, 65536)
                due = time.monotonic() + delay + jitter * chance.random()
                number += 1
                heapq.heappush(held, (due, number, other[end], packet))
        except BlockingIOError:
            pass
    while held and held[0][0] <= time.monotonic():
        _, _, end, packet = heapq.heappop(held)
        try:
            os.write(end, packet)
        except (BlockingIOError, OSError):
            pass
