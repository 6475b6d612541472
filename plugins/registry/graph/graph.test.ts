import { describe, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { random } from '../../../test/support/random.ts'
import { registryApp } from '../../../test/support/registry.ts'

interface Edge {
  readonly from: string
  readonly role: string
  readonly to: string
}
interface Node {
  readonly did: string
  readonly type: string
}

/** The textbook breadth-first search with a queue in memory, to compare with. */
function reference(nodes: ReadonlyMap<string, string>, edges: readonly Edge[]) {
  const leaving = Map.groupBy(edges, ({ from }) => from)
  const entering = Map.groupBy(edges, ({ to }) => to)
  return (
    start: string,
    { depth, direction, roles }: { depth: number; direction: string; roles?: readonly string[] },
  ) => {
    const found = new Map([[start, 0]])
    const walked = new Set<Edge>()
    const queue = [start]
    for (let did = queue.shift(); did !== undefined; did = queue.shift()) {
      const at = found.get(did)!
      if (at === depth) continue
      const out = direction === 'in' ? [] : (leaving.get(did) ?? [])
      const back = direction === 'out' ? [] : (entering.get(did) ?? [])
      for (const edge of [...out, ...back]) {
        if (roles && !roles.includes(edge.role)) continue
        walked.add(edge)
        const there = out.includes(edge) ? edge.to : edge.from
        if (found.has(there)) continue
        found.set(there, at + 1)
        queue.push(there)
      }
    }
    return {
      nodes: [...found]
        .map(([did, depth]) => ({ did, type: nodes.get(did)!, depth }))
        .sort((a, b) => a.depth - b.depth || (a.did < b.did ? -1 : 1)),
      edges: sorted([...walked]),
    }
  }
}

const textOf = ({ from, role, to }: Edge) => `${from} ${role} ${to}`
const sorted = (edges: readonly Edge[]) => edges.map(textOf).sort()

await onEachDatabase('the graph', (where) => {
  const app = registryApp(where)
  const graph = async (did: string, query = '') =>
    (await app.get(app.at(did, `/graph${query}`))).body

  /** Creates a graph in one atomic batch, whose lines may name each other in any order. */
  async function record(nodes: readonly Node[], edges: readonly Edge[]) {
    const from = Map.groupBy(edges, (edge) => edge.from)
    const lines = nodes.map(({ did, type }) => ({
      did,
      type,
      protocol: app.open,
      properties: {},
      relationships: (from.get(did) ?? []).map(({ role, to }) => ({ role, target: to })),
    }))
    const { status, results } = await app.batch(lines, '?atomic=true')
    expect([status, results.length]).toEqual([200, nodes.length])
  }

  /** A graph with cycles, edges to itself, several edges between two, and parts that nothing reaches. */
  function generated(seed: string, size: number, edgeCount: number) {
    const { integer } = random(seed)
    const types = ['Stove', 'Project', 'Person']
    const roles = ['uses', 'owns', 'sees']
    const nodes = Array.from({ length: size }, (_, n) => ({
      did: `did:graph:${seed}${String(n).padStart(5, '0')}`,
      type: types[n % 3]!,
    }))
    const edges = new Map<string, Edge>()
    while (edges.size < edgeCount) {
      // Half of the edges lead to nearby nodes, which makes cycles; a tenth leads to a few hubs.
      const from = integer(0, size - 1)
      const kind = integer(0, 9)
      const to =
        kind === 0
          ? integer(0, 2)
          : kind < 6
            ? (from + integer(-3, 3) + size) % size
            : integer(0, size - 1)
      const edge = { from: nodes[from]!.did, role: roles[integer(0, 2)]!, to: nodes[to]!.did }
      edges.set(textOf(edge), edge)
    }
    return { nodes, edges: [...edges.values()] }
  }

  it('answers like a plain breadth-first search: every depth, direction and role', async () => {
    const { nodes, edges } = generated('small', 60, 110)
    await record(nodes, edges)
    const expectedFrom = reference(new Map(nodes.map(({ did, type }) => [did, type])), edges)
    for (const start of [nodes[0]!, nodes[17]!, nodes[59]!])
      for (const depth of [0, 1, 2, 3, 5, 10])
        for (const direction of ['out', 'in', 'both'])
          for (const roles of [undefined, ['uses'], ['owns', 'sees']]) {
            const query = `?depth=${depth}&direction=${direction}${roles ? `&role=${roles}` : ''}`
            const answer = await graph(start.did, query)
            const expected = expectedFrom(start.did, { depth, direction, roles })
            expect([query, answer.nodes]).toEqual([query, expected.nodes])
            expect([query, sorted(answer.edges)]).toEqual([query, expected.edges])
            expect(answer.truncated).toBe(false)
          }
  })

  it('the same on 4,000 nodes', async () => {
    const { nodes, edges } = generated('large', 4000, 9000)
    await record(nodes, edges)
    const expectedFrom = reference(new Map(nodes.map(({ did, type }) => [did, type])), edges)
    const start = nodes[1]!.did
    for (const [depth, direction, roles] of [
      [2, 'both', undefined],
      [4, 'out', undefined],
      [4, 'in', ['uses', 'owns']],
      [6, 'both', undefined],
    ] as const) {
      const role = roles ? `&role=${roles}` : ''
      const answer = await graph(start, `?depth=${depth}&direction=${direction}${role}`)
      const expected = expectedFrom(start, { depth, direction, roles })
      expect(answer.nodes).toEqual(expected.nodes)
      expect(sorted(answer.edges)).toEqual(expected.edges)
      expect(answer.truncated).toBe(false)
    }
  })

  it('goes one edge outwards unless asked otherwise, and follows a write at once', async () => {
    const [a, b, c] = [await app.entity(), await app.entity(), await app.entity()]
    const edge = (from: string, to: string) =>
      app.at(from, `/relationships/x/${encodeURIComponent(to)}`)
    expect(await graph(a.did)).toEqual({
      nodes: [{ did: a.did, type: 'Thing', depth: 0 }],
      edges: [],
      truncated: false,
    })
    await app.put(edge(a.did, b.did), {})
    await app.put(edge(b.did, c.did), {})
    await app.put(edge(c.did, a.did), {})
    expect((await graph(a.did)).nodes.map((node: Node) => node.did)).toEqual([a.did, b.did])
    expect((await graph(a.did, '?depth=3')).edges).toHaveLength(3)
    expect((await graph(a.did, '?direction=in')).nodes.map((node: Node) => node.did)).toEqual([
      a.did,
      c.did,
    ])
    expect((await graph(a.did, '?direction=out,in')).nodes).toHaveLength(3)
    await app.delete(edge(a.did, b.did))
    expect((await graph(a.did)).nodes).toHaveLength(1)
  })

  it('returns only nodes of the kinds asked for, and walks through the others', async () => {
    const end = await app.entity({ type: 'Stove' })
    const middle = await app.entity({
      type: 'Box',
      relationships: [{ role: 'holds', target: end.did }],
    })
    const start = await app.entity({
      type: 'Shop',
      relationships: [{ role: 'sells', target: middle.did }],
    })
    expect(await graph(start.did, '?depth=2&kind=Stove')).toEqual({
      nodes: [{ did: end.did, type: 'Stove', depth: 2 }],
      edges: [],
      truncated: false,
    })
    expect((await graph(start.did, '?depth=2&kind=Stove,Box')).edges).toEqual([
      { from: middle.did, role: 'holds', to: end.did },
    ])
    expect((await graph(start.did, '?depth=2&role=sells&kind=Stove')).nodes).toEqual([])
  })

  describe('says when there is more', () => {
    it('beyond ten edges', async () => {
      const chain = Array.from({ length: 13 }, (_, n) => ({ did: `did:chain:${n}`, type: 'Link' }))
      await record(
        chain,
        chain.slice(1).map(({ did }, n) => ({ from: chain[n]!.did, role: 'next', to: did })),
      )
      const lengths = async (from: number, depth: number) => {
        const { nodes, truncated } = await graph(chain[from]!.did, `?depth=${depth}`)
        return [nodes.length, truncated]
      }
      expect(await lengths(0, 10)).toEqual([11, false])
      expect(await lengths(0, 11)).toEqual([11, true])
      expect(await lengths(2, 11)).toEqual([11, false])
      expect(await lengths(2, 1000)).toEqual([11, false])
      expect(await lengths(1, 12)).toEqual([11, true])
    })

    it('beyond ten thousand nodes', async () => {
      const leaves = Array.from({ length: 10_050 }, (_, n) => ({
        did: `did:leaf:${String(n).padStart(5, '0')}`,
        type: 'Leaf',
      }))
      const hubs = Array.from({ length: 15 }, (_, n) => ({ did: `did:hub:${n}`, type: 'Hub' }))
      const root = { did: 'did:hub:root', type: 'Hub' }
      const edges = [
        ...hubs.map(({ did }) => ({ from: root.did, role: 'x', to: did })),
        ...leaves.map(({ did }, n) => ({ from: hubs[n % 15]!.did, role: 'x', to: did })),
      ]
      await record([root, ...hubs, ...leaves], edges)
      const { nodes, edges: walked, truncated } = await graph(root.did, '?depth=2')
      expect([nodes.length, truncated]).toEqual([10_000, true])
      expect(walked).toHaveLength(9_999)
      expect(nodes.at(-1).did).toBe('did:leaf:09983')
      expect((await graph(hubs[0]!.did, '?depth=1')).truncated).toBe(false)
    })
  })

  it('refuses what it cannot walk', async () => {
    const { did } = await app.entity()
    for (const [query, path] of [
      ['?depth=-1', 'depth'],
      ['?depth=1.5', 'depth'],
      ['?depth=x', 'depth'],
      ['?direction=up', 'direction'],
      ['?direction=', 'direction'],
    ])
      expect([query, await app.get(app.at(did, `/graph${query}`))]).toMatchObject([
        query,
        { status: 400, body: { details: [{ path }] } },
      ])
    expect((await app.get(app.at('did:no:one', '/graph'))).status).toBe(404)
    await app.delete(app.at(did), { 'if-match': '*' })
    expect((await app.get(app.at(did, '/graph'))).status).toBe(410)
  })
})
