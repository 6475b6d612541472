import { RuntimeError } from '#core'
import { withoutNul } from './query.ts'
import type { PathVariable, Template } from './template.ts'

/** The template and the value of one route. */
interface Entry<T> {
  readonly template: Template
  readonly value: T
  readonly name: string
}

interface Node<T> {
  readonly literals: Map<string, Node<T>>
  any?: Node<T>
  rest?: Node<T>
  /** The routes that end at this node, by the verb after the colon, then by HTTP method. */
  readonly ends: Map<string, Map<string, Entry<T>>>
}

/** The value of the route that matches a path, with the values of the path's variables. */
export interface Found<T> {
  readonly value: T
  /** The decoded values of the template's variables, in the order of the template. */
  readonly values: readonly string[]
}

/** A table of routes whose paths have variables. */
export interface RouteTable<T> {
  /** Finds the route of a method and a path; undefined where no template matches. */
  find(method: string, path: string): Found<T> | undefined
  /** The methods of all templates that match a path. */
  methods(path: string): string[]
  /** A sentence for each template that an earlier one hides. */
  readonly conflicts: readonly string[]
}

/** A route for the table. `name` says in a conflict whose route it is. */
export interface Routed<T> extends Entry<T> {
  readonly verb: string
}

const node = <T>(): Node<T> => ({ literals: new Map(), ends: new Map() })

/**
 * Makes a table that matches raw paths against templates. It splits a path first and then decodes each segment, so that
 * an encoded slash is part of an id. From left to right a literal takes precedence over `*`, and `*` over `**`. Text
 * after a colon is data unless a template has exactly that verb.
 */
export function createRouteTable<T>(entries: readonly Routed<T>[]): RouteTable<T> {
  const root = node<T>()
  const conflicts: string[] = []
  for (const { verb, template, value, name } of entries) {
    let at = root
    for (const part of template.parts) {
      if (part === '*') at = at.any ??= node()
      else if (part === '**') at = at.rest ??= node()
      else {
        let next = at.literals.get(part.literal)
        if (next === undefined) at.literals.set(part.literal, (next = node()))
        at = next
      }
    }
    let byMethod = at.ends.get(template.verb)
    if (byMethod === undefined) at.ends.set(template.verb, (byMethod = new Map()))
    const first = byMethod.get(verb)
    if (first === undefined) byMethod.set(verb, { template, value, name })
    else
      conflicts.push(
        `${verb} ${template.text} of ${name} is hidden by ${first.template.text} of ${first.name}`,
      )
  }

  /** Visits every node that a path leads to, best match first, until `visit` returns true. */
  function walk(
    segments: readonly Segment[],
    visit: (byMethod: Map<string, Entry<T>>, segments: readonly Segment[]) => boolean,
  ): boolean {
    const last = segments.length - 1
    const tail = segments[last]?.raw ?? ''
    const colon = tail.lastIndexOf(':')
    const verb = colon > 0 ? tail.slice(colon + 1) : ''
    const end = (at: Node<T>, verb: string, taken: readonly Segment[]) => {
      const byMethod = at.ends.get(verb)
      return byMethod !== undefined && visit(byMethod, taken)
    }
    const down = (at: Node<T>, index: number, taken: readonly Segment[], verb: string): boolean => {
      if (index === taken.length) {
        if (end(at, verb, taken)) return true
        return at.rest !== undefined && end(at.rest, verb, taken)
      }
      const segment = taken[index]!
      const literal = at.literals.get(segment.text)
      if (literal !== undefined && down(literal, index + 1, taken, verb)) return true
      if (at.any !== undefined && segment.raw !== '' && down(at.any, index + 1, taken, verb))
        return true
      return at.rest !== undefined && end(at.rest, verb, taken)
    }
    if (verb !== '') {
      const shorn = segments.with(last, segmentOf(tail.slice(0, colon)))
      if (down(root, 0, shorn, verb)) return true
    }
    return down(root, 0, segments, '')
  }

  return {
    conflicts,
    find(method, path) {
      const segments = split(path)
      let found: Found<T> | undefined
      walk(segments, (byMethod, taken) => {
        const entry = byMethod.get(method) ?? (method === 'OPTIONS' ? undefined : byMethod.get('*'))
        if (entry === undefined) return false
        const values = entry.template.variables.map((variable) => valueOf(variable, taken))
        found = { value: entry.value, values }
        return true
      })
      return found
    },
    methods(path) {
      const methods = new Set<string>()
      walk(split(path), (byMethod) => {
        for (const method of byMethod.keys()) methods.add(method)
        return false
      })
      return [...methods]
    },
  }
}

interface Segment {
  readonly raw: string
  readonly text: string
}

const split = (path: string): Segment[] =>
  path === '/' ? [] : path.slice(1).split('/').map(segmentOf)

function segmentOf(raw: string): Segment {
  if (!raw.includes('%')) return { raw, text: raw }
  try {
    return { raw, text: withoutNul(decodeURIComponent(raw)) }
  } catch (cause) {
    if (cause instanceof RuntimeError) throw cause
    throw new RuntimeError(
      'BAD_REQUEST',
      `The path segment "${raw}" is not percent-encoded UTF-8.`,
      {
        cause,
      },
    )
  }
}

function valueOf({ from, to, multi }: PathVariable, segments: readonly Segment[]): string {
  if (!multi) return segments[from]?.text ?? ''
  return segments.slice(from, to).map(decodeKeepingSlashes).join('/')
}

/** Decodes a segment but keeps `%2F`, because in a variable of many segments a decoded slash would look like a separator. */
const decodeKeepingSlashes = ({ raw, text }: Segment): string =>
  /%2f/i.test(raw)
    ? raw
        .split(/(%2f)/i)
        .map((piece, index) => (index % 2 === 1 ? piece : decodeURIComponent(piece)))
        .join('')
    : text
