/** A request as it is sent, so that one that did harm can be sent again. */
export interface HostileRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** A JSON Schema of the API's own description, as far as values are made from it. */
export interface Shape {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Shape>>
  readonly required?: readonly string[]
  readonly items?: Shape
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Shape[]
  readonly oneOf?: readonly Shape[]
  readonly allOf?: readonly Shape[]
  readonly additionalProperties?: boolean | Shape
  readonly minimum?: number
  readonly maximum?: number
  readonly $ref?: string
}

/** One method of one path, with all that may be sent to it. */
export interface Operation {
  readonly method: string
  readonly path: string
  /** Whether callers say who they are. */
  readonly isLocked: boolean
  /** Who may call it. */
  readonly as: 'user' | 'key' | 'operator'
  readonly query: readonly { readonly name: string; readonly schema: Shape }[]
  readonly body?: Shape
  readonly ndjson: boolean
  /** A sound body, where a schema does not lead to one. */
  readonly skeleton?: (id: () => string) => object
}

/** Numbers of a seed. */
export type Dice = () => number

/** Makes hostile inputs: sound ones after a schema, and then changed in ways that have done harm somewhere. */
export class Hostile {
  readonly #next: Dice
  /** Ids that a server has answered with, so that paths lead somewhere. */
  readonly #ids: string[] = ['did:ixo:entity:abc', 'x']

  constructor(next: Dice) {
    this.#next = next
  }

  upTo(most: number): number {
    return Math.floor(this.#next() * most)
  }

  pick<T>(all: readonly T[]): T {
    return all[this.upTo(all.length)] as T
  }

  /** All of them, in another order. */
  shuffled<T>(all: readonly T[]): T[] {
    return all
      .map((one) => ({ one, at: this.#next() }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ one }) => one)
  }

  maybe(chance: number): boolean {
    return this.#next() < chance
  }

  /** Remembers the ids of an answer. */
  learn(answer: string): void {
    for (const [, id] of answer.matchAll(
      /"(?:did|id|\w*Id|collection|nextCursor)":"([^"\\]{1,200})"/g,
    )) {
      if (id === undefined || this.#ids.includes(id)) continue
      if (this.#ids.length < 200) this.#ids.push(id)
      else this.#ids[this.upTo(200)] = id
    }
  }

  /** One of the ids so far, of those that begin with `begin` where there are any. */
  id(begin = ''): string {
    const fitting = begin ? this.#ids.filter((id) => id.startsWith(begin)) : this.#ids
    return this.pick(fitting.length > 0 ? fitting : this.#ids)
  }

  /** A value that a schema takes in most cases. */
  sound(shape: Shape, name = '', depth = 0): unknown {
    if (shape.const !== undefined) return shape.const
    if (shape.enum) return this.pick(shape.enum)
    const choices = shape.anyOf ?? shape.oneOf
    if (choices?.length) return this.sound(this.pick(choices), name, depth + 1)
    if (shape.allOf?.length)
      return Object.assign({}, ...shape.allOf.map((one) => this.sound(one, name, depth + 1)))
    const type = Array.isArray(shape.type) ? this.pick(shape.type) : shape.type
    if (type === 'object' || shape.properties) {
      const wanted = Object.entries(shape.properties ?? {}).filter(
        ([key]) => shape.required?.includes(key) || this.maybe(0.5),
      )
      const made = Object.fromEntries(
        wanted.map(([key, one]) => [key, depth > 6 ? null : this.sound(one, key, depth + 1)]),
      )
      if (wanted.length === 0 && shape.additionalProperties)
        made[this.pick(['name', 'all', 'fuel'])] =
          typeof shape.additionalProperties === 'object' && depth < 6
            ? this.sound(shape.additionalProperties, '', depth + 1)
            : this.text(name)
      return made
    }
    if (type === 'array')
      return Array.from({ length: this.upTo(4) }, () =>
        depth > 6 ? null : this.sound(shape.items ?? {}, name, depth + 1),
      )
    if (type === 'integer' || type === 'number') {
      const { minimum = 0, maximum = 1000 } = shape
      const number = minimum + this.#next() * (Math.min(maximum, 1e6) - minimum)
      return type === 'integer' ? Math.round(number) : number
    }
    if (type === 'boolean') return this.maybe(0.5)
    if (type === 'null') return null
    return this.text(name)
  }

  /** Text that a field of this name would hold. */
  text(name: string): string {
    if (/did|id$|protocol|controller|target|project/i.test(name)) return this.id()
    if (/time|at$|since|date/i.test(name)) return '2026-01-01T00:00:00Z'
    if (/number|phone/i.test(name)) return '+260971234567'
    return this.pick(['Lusaka', 'stove', 'What is the weather in Lusaka?', '1*2*3', 'name', '5'])
  }

  /** Something that has kept a program busy before. */
  evil(): unknown {
    const many = this.pick([10, 100, 1000, 5000, 20_000])
    return this.pick<() => unknown>([
      () => this.pick([0, -0, -1, 1e308, -1e308, 1e-308, 5e-324, 2 ** 53, 2 ** 53 + 2, 1e21, 0.1]),
      () => this.pick(['', ' ', '\u0001', 'é', '\ufeff', '💥', '\ud800', '\0', '__proto__', '%00']),
      () =>
        this.pick(['1', '1 ', 'a', 'a.', '((', '{', '[', '"', '\\', ':', 'x:', '-', ',']).repeat(
          many,
        ),
      () =>
        this.pick([
          'did:',
          'did:ixo:',
          'a@',
          '*',
          '../',
          '\n',
          '\t ',
          'é',
          '💥',
          '{x}',
          '=',
        ]).repeat(many),
      () => Object.fromEntries(Array.from({ length: many / 4 }, (_, n) => [`nmae${n}`, n])),
      () => Array.from({ length: many }, (_, n) => (this.maybe(0.5) ? n : `n${n}`)),
      () => Array.from({ length: many / 4 }, (_, n) => ({ name: `x${n}`, id: `#${n % 7}` })),
      () => this.nested(this.pick([8, 30, 60, 63, 70, 200])),
      () => ({ constructor: 1 }),
      () => null,
      () => true,
      () => [[]],
    ])()
  }

  nested(depth: number): unknown {
    const wrap = this.pick<(inside: unknown) => unknown>([
      (inside) => [inside],
      (inside) => ({ items: inside }),
      (inside) => ({ allOf: [inside] }),
      (inside) => ({ type: 'array', items: inside }),
    ])
    let value: unknown = 1
    for (let level = 0; level < depth; level++) value = wrap(value)
    return value
  }

  /** The value with something hostile in one place. */
  twisted(value: unknown, depth = 0): unknown {
    if (typeof value !== 'object' || value === null || this.maybe(0.15)) return this.evil()
    if (Array.isArray(value)) {
      if (value.length > 0 && this.maybe(0.5)) {
        // Many items that are the same, or that differ a little.
        const one = this.pick(value as unknown[])
        const many = this.pick([2, 50, 1001, 4000])
        return Array.from({ length: many }, () => one)
      }
      const at = this.upTo(value.length + 1)
      return value.toSpliced(at, 1, this.twisted(value[at], depth + 1))
    }
    const keys = Object.keys(value)
    const key = keys.length === 0 || this.maybe(0.1) ? 'unheardOf' : this.pick(keys)
    const own = value as Record<string, unknown>
    if (this.maybe(0.1)) return Object.fromEntries(Object.entries(own).filter(([k]) => k !== key))
    return { ...own, [key]: depth > 8 ? this.evil() : this.twisted(own[key], depth + 1) }
  }

  /** JSON with, now and then, a break in it. */
  json(value: unknown): string {
    let text = JSON.stringify(value) ?? 'null'
    if (text.length > 900_000) text = text.slice(0, 900_000)
    if (this.maybe(0.05)) return text.slice(0, this.upTo(text.length))
    if (this.maybe(0.03)) return `${text.slice(0, 20)}${'['.repeat(50_000)}`
    return text
  }

  /** A request to an operation, hostile in its path, its query, its headers or its body. */
  request({ method, path, query, body, ndjson, skeleton }: Operation): HostileRequest {
    const where = this.pick(['path', 'query', 'headers', 'body', 'body', 'body'])
    const segment = () =>
      where === 'path' && this.maybe(0.5)
        ? encodeURIComponent(String(this.evil()).toWellFormed().slice(0, 3000))
        : encodeURIComponent(this.id())
    const filled = path.replace(/\{[^}]+\}/g, segment)
    const pairs = query
      .filter(() => this.maybe(0.6))
      .map(({ name, schema }) => {
        const value = where === 'query' && this.maybe(0.5) ? this.evil() : this.sound(schema, name)
        const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
        return `${name}=${encodeURIComponent(text.toWellFormed().slice(0, 3000))}`
      })
    const headers: Record<string, string> = {}
    if (where === 'headers')
      headers[
        this.pick([
          'accept',
          'if-none-match',
          'if-match',
          'range',
          'cookie',
          'origin',
          'last-event-id',
          'idempotency-key',
          'accept-language',
          'x-request-id',
          'x-timezone',
          'forwarded',
          'prefer',
        ])
      ] = this.pick(['"a",', 'W/"', 'a;q=0.1,', 'bytes=0-1,', 'a=b; ', '1', '*', ',', ' ']).repeat(
        this.pick([1, 30, 1000]),
      )
    const to = `${filled}${pairs.length > 0 ? `?${pairs.join('&')}` : ''}`
    if (method === 'GET' || (!body && !ndjson)) return { method, path: to, headers }
    const made = () => {
      const sound =
        skeleton && this.maybe(0.7) ? skeleton(() => this.id('did:ixo:')) : this.sound(body ?? {})
      return where === 'body' ? this.twisted(sound) : sound
    }
    if (ndjson && this.maybe(0.5)) {
      const lines = Array.from({ length: this.pick([1, 3, 40]) }, () => this.json(made()))
      headers['content-type'] = 'application/x-ndjson'
      return { method, path: to, headers, body: lines.join('\n') }
    }
    headers['content-type'] = 'application/json'
    return { method, path: to, headers, body: this.json(made()) }
  }

  /** What a client says of itself when a socket opens, beside its tokens: sound, missing or hostile. */
  handshake(): Record<string, unknown> {
    const said: Record<string, unknown> = {}
    for (const [name, sound] of Object.entries({
      approvals: true,
      user: true,
      after: 0,
      cursor: '1',
    }))
      if (this.maybe(0.4)) said[name] = this.maybe(0.7) ? sound : this.short()
    return said
  }

  /** Something hostile that fits into a frame. */
  short(): unknown {
    const value = this.evil()
    return JSON.stringify(value).length > 40_000 ? null : value
  }

  /** A frame of a socket. */
  frame(framing: 'plain' | 'socket.io'): string {
    const answer = {
      toolCallId: this.id(),
      sessionId: this.id(),
      result: this.evil(),
      error: this.evil(),
    }
    const type = this.pick([
      'tool_result',
      'action_call_result',
      'auth',
      'ping',
      'action_result',
      '__proto__',
      '',
    ])
    const said = this.maybe(0.5) ? answer : this.twisted(answer)
    if (framing === 'plain') {
      const fields = typeof said === 'object' && said !== null ? said : {}
      return this.json({ type, ...fields }).slice(0, 60_000)
    }
    const packet = this.pick([
      '42',
      '42',
      '40',
      '41',
      '2',
      '3',
      '451-',
      '43',
      '44',
      '4',
      '42/x,',
      '4299',
    ])
    return `${packet}${this.json([type, said])}`.slice(0, 60_000)
  }
}
