import type { OutsideTool } from '#core'

/** A parameter that a client repeats as the header `Mcp-Param-<header>`, for what routes requests without reading bodies. */
interface Repeated {
  readonly header: string
  readonly path: readonly string[]
  readonly isInteger: boolean
}

/** Where a header and the body do not agree. */
export interface Disagreement {
  readonly header: string
  readonly sentence: string
}

const keyword = 'x-mcp-header'
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}$/
const repeatable: readonly unknown[] = ['string', 'integer', 'boolean']
const mostDepth = 32

/** Made once for each tool: the package checks these headers for its own kind of server alone. */
const known = new WeakMap<OutsideTool, readonly Repeated[]>()

/** The first header of a call that does not say what its body says; undefined where all do. */
export function disagreementOf(
  tool: OutsideTool,
  args: unknown,
  headers: Headers,
): Disagreement | undefined {
  for (const { header, path, isInteger } of repeatedOf(tool)) {
    const value = valueAt(args, path)
    const isPlain = ['string', 'number', 'boolean'].includes(typeof value)
    // What is not there needs no header, and a value of another type is refused with the other arguments.
    if (!isPlain) continue
    const name = path.join('.')
    const sent = headers.get(header)
    if (sent === null)
      return { header, sentence: `The body has "${name}", and the header ${header} is missing.` }
    const said = decoded(sent)
    if (said === undefined)
      return { header, sentence: `The header ${header} is no Base64 of a text.` }
    const isSame =
      isInteger && typeof value === 'number' && /^-?\d+(\.\d+)?$/.test(said)
        ? Number(said) === value
        : said === String(value)
    if (!isSame) return { header, sentence: `The header ${header} is not what "${name}" is.` }
  }
  return undefined
}

function repeatedOf(tool: OutsideTool): readonly Repeated[] {
  const before = known.get(tool)
  if (before) return before
  const found = [...declaredIn(tool.parameters, [])]
  known.set(tool, found)
  return found
}

/** The protocol knows such parameters as properties of properties alone, and not in the branches of a schema. */
function* declaredIn(schema: unknown, path: readonly string[]): Generator<Repeated> {
  const { [keyword]: name, type, properties }: Readonly<Record<string, unknown>> = Object(schema)
  if (typeof name === 'string' && token.test(name) && repeatable.includes(type))
    yield { header: `Mcp-Param-${name}`, path, isInteger: type === 'integer' }
  if (path.length === mostDepth) return
  for (const [key, of] of Object.entries(Object(properties))) yield* declaredIn(of, [...path, key])
}

function valueAt(args: unknown, path: readonly string[]): unknown {
  let value = args
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = Reflect.get(value, key)
  }
  return value
}

/** What a header says: `=?base64?…?=` is of UTF-8, and anything else is as it stands. */
function decoded(header: string): string | undefined {
  const inside = /^=\?base64\?(.*)\?=$/.exec(header)?.[1]
  if (inside === undefined) return header
  const bytes = Buffer.from(inside, 'base64')
  // Buffer passes over what is no Base64; what it makes of the bytes shows that it did.
  if (bytes.toString('base64') !== inside) return undefined
  const text = bytes.toString('utf8')
  return Buffer.from(text).equals(bytes) ? text : undefined
}
