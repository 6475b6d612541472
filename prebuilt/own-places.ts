import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'

/** A part of a syntax tree, as far as it is looked at here. */
interface Part {
  readonly type?: string
  readonly start?: number
  readonly end?: number
  readonly object?: Part
  readonly property?: { readonly name?: string }
  readonly await?: boolean
}

/** Writes into a source where it is, for the file that is made of it is elsewhere. Lines stay where they are. */
export function withPlace(tree: unknown, code: string, id: string) {
  const place: Readonly<Record<string, string>> = {
    url: JSON.stringify(pathToFileURL(id).href),
    filename: JSON.stringify(id),
    dirname: JSON.stringify(dirname(id)),
    // What is built is imported, and never what a process is started with.
    main: 'false',
  }
  let placed = code
  for (const { name, from, to } of placesIn(tree).toSorted((a, b) => b.from - a.from)) {
    // It resolves names of packages, which are the same for what is built.
    if (name === 'resolve') continue
    if (place[name] === undefined) throw new Error(`${id} asks for import.meta.${name}.`)
    placed = placed.slice(0, from) + place[name] + placed.slice(to)
  }
  return { code: placed, map: null }
}

/** Where a syntax tree asks for a property of `import.meta`. */
function placesIn(tree: unknown): { name: string; from: number; to: number }[] {
  return parts(tree, () => true).flatMap(({ type, object, property, start = 0, end = 0 }) =>
    type === 'MemberExpression' && object?.type === 'MetaProperty'
      ? [{ name: property?.name ?? '', from: start, to: end }]
      : [],
  )
}

/** Whether the import of a module waits for something. */
export function waits(tree: unknown): boolean {
  return parts(tree, ({ type = '' }) => !/Function|^MethodDefinition/.test(type)).some(
    (part) => part.type === 'AwaitExpression' || part.await === true,
  )
}

/** The parts of a tree, without those in which the look stops. */
function parts(tree: unknown, goesIn: (part: Part) => boolean): Part[] {
  if (Array.isArray(tree)) return tree.flatMap((one) => parts(one, goesIn))
  if (typeof tree !== 'object' || tree === null || !goesIn(tree)) return []
  return [tree, ...Object.values(tree).flatMap((one) => parts(one, goesIn))]
}
