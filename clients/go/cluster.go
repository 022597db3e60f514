package parley

import (
	"math/bits"
	"slices"
	"sort"
)

// mostShapes is how many indexes are kept: a trace may ask for another amount of memory in every
// line.
const mostShapes = 128

// mostStale is how many spans are noted for an index that nobody asks for, before it is brought
// up to date all the same.
const mostStale = 512

// Amount is so much of a resource.
type Amount struct {
	Resource string
	Amount   int64
}

// Shape is what one chunk asks of its node. A view makes each shape once: two jobs ask for the
// same if their shapes are the same pointer.
type Shape struct {
	// PerChunk holds what it asks for, by name of the resource, without amounts of 0.
	PerChunk []Amount
	// Exclusive chunks take a wholly empty node, all of it.
	Exclusive bool
}

// Cluster is the nodes of a platform and what is free on them, made for being searched: for each
// shape that is asked for it keeps how many chunks go on each node, and brings that up to date on
// the nodes that changed only.
type Cluster struct {
	NodeCount int64
	groups    []NodeGroup
	resources []string
	// free has what is free of each resource on each node, whether it is taken whole or not.
	free map[string][]int64
	// chunks on each node; sealed nodes are taken whole or out of service.
	chunks []int64
	sealed []bool
	down   []bool
	rooms  map[*Shape]*room
	shapes []*Shape
}

// NewCluster makes the empty machine of a platform. Nodes that are in no group have nothing.
func NewCluster(platform Platform) *Cluster {
	c := &Cluster{NodeCount: platform.NodeCount, groups: platform.Groups, free: map[string][]int64{}}
	for _, group := range platform.Groups {
		for resource := range group.Capacity {
			if c.free[resource] == nil {
				c.resources = append(c.resources, resource)
				c.free[resource] = make([]int64, c.NodeCount)
			}
		}
	}
	slices.Sort(c.resources)
	for _, group := range platform.Groups {
		for resource, amount := range group.Capacity {
			free := c.free[resource]
			for node := group.First; node <= group.Last; node++ {
				free[node] = amount
			}
		}
	}
	c.chunks = make([]int64, c.NodeCount)
	c.sealed = make([]bool, c.NodeCount)
	c.down = make([]bool, c.NodeCount)
	c.rooms = map[*Shape]*room{}
	return c
}

// Available returns how many chunks of a shape go on all nodes together now.
func (c *Cluster) Available(shape *Shape) int64 { return c.room(shape).total }

// Fits tells whether so many chunks of a shape go on the nodes now.
func (c *Cluster) Fits(shape *Shape, chunks int64) bool { return c.room(shape).total >= chunks }

// FirstFit returns the lowest-numbered nodes that hold the chunks, each filled as far as it goes,
// or nil; nothing changes.
func (c *Cluster) FirstFit(shape *Shape, chunks int64) []Span {
	room := c.room(shape)
	if chunks > room.total {
		return nil
	}
	var spans []Span
	node := int64(-1)
	for chunks > 0 {
		node = room.next(node + 1)
		each := min(room.counts[node], chunks)
		chunks -= each
		spans = appendSpan(spans, node, each)
	}
	return spans
}

// FreeOf returns what is free of a resource on a node; 0 on one that is taken whole or down.
func (c *Cluster) FreeOf(resource string, node int64) int64 {
	free := c.free[resource]
	if free == nil || c.sealed[node] {
		return 0
	}
	return free[node]
}

// Down tells whether a node is out of service.
func (c *Cluster) Down(node int64) bool { return c.down[node] }

// Resources returns the names of the resources of the platform, ascending by code points.
func (c *Cluster) Resources() []string { return c.resources }

// Take puts chunks on nodes that have room for them.
func (c *Cluster) Take(shape *Shape, spans []Span) { c.put(shape, spans, 1) }

// Release takes chunks off the nodes that hold them.
func (c *Cluster) Release(shape *Shape, spans []Span) { c.put(shape, spans, -1) }

func (c *Cluster) put(shape *Shape, spans []Span, sign int64) {
	if shape.Exclusive {
		c.seal(spans, sign > 0)
		return
	}
	for _, span := range spans {
		change := sign * span.Chunks
		for node := span.First; node <= span.Last; node++ {
			c.chunks[node] += change
		}
		for _, asked := range shape.PerChunk {
			free := c.free[asked.Resource]
			for node := span.First; node <= span.Last; node++ {
				free[node] -= asked.Amount * change
			}
		}
	}
	c.changed(spans)
}

func (c *Cluster) seal(spans []Span, sealed bool) {
	for _, span := range spans {
		for node := span.First; node <= span.Last; node++ {
			c.sealed[node] = sealed
		}
	}
	c.changed(spans)
}

// goDown takes nodes on which nothing runs out of service.
func (c *Cluster) goDown(first, last int64) { c.setDown(first, last, true) }

// comeUp returns nodes to service, empty.
func (c *Cluster) comeUp(first, last int64) { c.setDown(first, last, false) }

func (c *Cluster) setDown(first, last int64, down bool) {
	for node := first; node <= last; node++ {
		c.down[node] = down
	}
	c.seal([]Span{{First: first, Last: last}}, down)
}

// changed notes that what is free on nodes is not what it was.
func (c *Cluster) changed(spans []Span) {
	for _, shape := range c.shapes {
		room := c.rooms[shape]
		room.stale = append(room.stale, spans...)
		if len(room.stale) > mostStale {
			c.refresh(room)
		}
	}
}

func (c *Cluster) refresh(room *room) {
	for _, span := range room.stale {
		for node := span.First; node <= span.Last; node++ {
			room.set(node, c.count(room, node))
		}
	}
	room.stale = room.stale[:0]
}

func (c *Cluster) room(shape *Shape) *room {
	if known, ok := c.rooms[shape]; ok {
		if len(known.stale) > 0 {
			c.refresh(known)
		}
		return known
	}
	if len(c.shapes) >= mostShapes {
		delete(c.rooms, c.shapes[0])
		c.shapes = c.shapes[1:]
	}
	made := newRoom(shape, c)
	for node := range c.NodeCount {
		made.set(node, c.count(made, node))
	}
	c.rooms[shape] = made
	c.shapes = append(c.shapes, shape)
	return made
}

// count returns how many chunks of a shape go on a node now.
func (c *Cluster) count(room *room, node int64) int64 {
	switch {
	case c.sealed[node]:
		return 0
	case c.chunks[node] == 0:
		return room.full[node]
	case room.shape.Exclusive:
		return 0
	}
	count := int64(mostInteger)
	for i, asked := range room.shape.PerChunk {
		free := int64(0)
		if room.free[i] != nil {
			free = room.free[i][node]
		}
		count = min(count, free/asked.Amount)
	}
	return max(0, count)
}

// Fork returns a copy that shares nothing that changes, to try out on it what is to come.
func (c *Cluster) Fork() *Cluster {
	twin := *c
	twin.free = make(map[string][]int64, len(c.free))
	for resource, free := range c.free {
		twin.free[resource] = slices.Clone(free)
	}
	twin.chunks = slices.Clone(c.chunks)
	twin.sealed = slices.Clone(c.sealed)
	twin.down = slices.Clone(c.down)
	twin.rooms, twin.shapes = map[*Shape]*room{}, nil
	return &twin
}

// KindsOfNodes tells for each group of nodes whether an empty one takes a chunk of the shape, as
// a text that is the same for shapes that take the same groups.
func (c *Cluster) KindsOfNodes(shape *Shape) string {
	kinds := make([]byte, len(c.groups))
	for i, group := range c.groups {
		kinds[i] = '0' + byte(min(1, most(shape, group.Capacity)))
	}
	return string(kinds)
}

// totals returns what is free of each resource in all.
func (c *Cluster) totals() map[string]int64 {
	totals := map[string]int64{}
	for resource, free := range c.free {
		totals[resource] = 0
		for node, amount := range free {
			if !c.sealed[node] {
				totals[resource] += amount
			}
		}
	}
	return totals
}

// downRanges returns the ranges of nodes out of service, ascending.
func (c *Cluster) downRanges() []Span {
	var ranges []Span
	for node, down := range c.down {
		if down {
			ranges = appendSpan(ranges, int64(node), 1)
		}
	}
	return ranges
}

// most returns how many chunks an empty node takes.
func most(shape *Shape, capacity map[string]int64) int64 {
	count := int64(mostInteger)
	for _, asked := range shape.PerChunk {
		count = min(count, capacity[asked.Resource]/asked.Amount)
	}
	if shape.Exclusive {
		return min(count, 1)
	}
	return count
}

// room is the index of one shape: how many chunks of it each node takes now.
type room struct {
	shape *Shape
	// free has what is free of each resource that the shape asks for; nil of one that no node has.
	free [][]int64
	// full is what each node takes when it is empty.
	full   []int64
	counts []int64
	// usable has one bit a node, set where a chunk fits.
	usable []uint64
	total  int64
	stale  []Span
}

func newRoom(shape *Shape, c *Cluster) *room {
	r := &room{
		shape:  shape,
		full:   make([]int64, c.NodeCount),
		counts: make([]int64, c.NodeCount),
		usable: make([]uint64, (c.NodeCount+63)/64),
	}
	for _, asked := range shape.PerChunk {
		r.free = append(r.free, c.free[asked.Resource])
	}
	for _, group := range c.groups {
		full := most(shape, group.Capacity)
		for node := group.First; node <= group.Last; node++ {
			r.full[node] = full
		}
	}
	return r
}

func (r *room) set(node, count int64) {
	r.total += count - r.counts[node]
	r.counts[node] = count
	if count > 0 {
		r.usable[node/64] |= 1 << (node % 64)
	} else {
		r.usable[node/64] &^= 1 << (node % 64)
	}
}

// next returns the first usable node from one on; there must be one.
func (r *room) next(node int64) int64 {
	word := node / 64
	set := r.usable[word] >> (node % 64) << (node % 64)
	for set == 0 {
		word++
		set = r.usable[word]
	}
	return word*64 + int64(bits.TrailingZeros64(set))
}

// appendSpan adds a node behind spans, joined with the last if they can be one.
func appendSpan(spans []Span, node, chunks int64) []Span {
	if last := len(spans) - 1; last >= 0 && spans[last].Last+1 == node && spans[last].Chunks == chunks {
		spans[last].Last = node
		return spans
	}
	return append(spans, Span{First: node, Last: node, Chunks: chunks})
}

// merged joins neighbouring spans with equally many chunks a node; they must ascend.
func merged(spans []Span) []Span {
	var joined []Span
	for _, span := range spans {
		last := len(joined) - 1
		if last >= 0 && joined[last].Last+1 == span.First && joined[last].Chunks == span.Chunks {
			joined[last].Last = span.Last
		} else {
			joined = append(joined, span)
		}
	}
	return joined
}

// shapeOf returns what a group of chunks asks of each node; amounts of 0 ask for nothing.
func shapeOf(group ChunkGroup) *Shape {
	shape := &Shape{Exclusive: group.Exclusive}
	for resource, amount := range group.PerChunk {
		if amount > 0 {
			shape.PerChunk = append(shape.PerChunk, Amount{resource, amount})
		}
	}
	sort.Slice(shape.PerChunk, func(i, j int) bool {
		return shape.PerChunk[i].Resource < shape.PerChunk[j].Resource
	})
	return shape
}
