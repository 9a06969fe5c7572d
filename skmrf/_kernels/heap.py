"""Binary heap whose first item has the highest priority; priorities can change.

``heap`` holds the items, and ``position[item]`` is the index of an item in the heap.
"""

from ._jit import inlined


@inlined
def sift_up(heap, position, priority, item):
    """Restore the order of the heap after the priority of an item has increased."""
    k = position[item]
    while k > 0:
        above = (k - 1) // 2
        other = heap[above]
        if priority[other] >= priority[item]:
            break
        heap[k] = other
        position[other] = k
        k = above
    heap[k] = item
    position[item] = k


@inlined
def sift_down(heap, position, priority, item):
    """Restore the order of the heap after the priority of an item has decreased."""
    k = position[item]
    n = heap.size
    while 2 * k + 1 < n:
        below = 2 * k + 1
        if below + 1 < n and priority[heap[below + 1]] > priority[heap[below]]:
            below += 1
        other = heap[below]
        if priority[other] <= priority[item]:
            break
        heap[k] = other
        position[other] = k
        k = below
    heap[k] = item
    position[item] = k
