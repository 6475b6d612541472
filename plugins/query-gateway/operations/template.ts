import { RuntimeError } from '#core'

/** A segment of a path template: a literal, `*` (one segment) or `**` (the rest). */
export type Part = { readonly literal: string } | '*' | '**'

/** A field that takes the segments from `from` up to `to`; where `to` is Infinity, the field takes all further segments. */
export interface PathVariable {
  readonly path: readonly string[]
  readonly from: number
  readonly to: number
  /** Whether the variable takes more than one segment; in such a variable an encoded slash stays encoded. */
  readonly multi: boolean
}

/** The parsed path of an HTTP rule. */
export interface Template {
  readonly text: string
  readonly parts: readonly Part[]
  /** The text after the last colon, or empty. */
  readonly verb: string
  readonly variables: readonly PathVariable[]
}

const identifier = /^[A-Za-z_][A-Za-z0-9_]*$/

/**
 * Parses the template grammar of google/api/http.proto:
 * `"/" Segments [":" Verb]`, where a segment is `*`, `**`, a literal or `{field.path=Segments}`.
 */
export function parseTemplate(text: string): Template {
  const fault = (why: string) =>
    new RuntimeError('ROUTE_INVALID', `The path template "${text}" is malformed: ${why}.`)
  if (!text.startsWith('/')) throw fault('it does not begin with a slash')
  const parts: Part[] = []
  const variables: PathVariable[] = []
  let at = 1
  let verb = ''

  const literalEnd = () => {
    let end = at
    while (end < text.length && !'/{}:=*'.includes(text[end] ?? '')) end++
    return end
  }
  const segment = (inVariable: boolean): void => {
    if (text.startsWith('**', at)) {
      parts.push('**')
      at += 2
    } else if (text[at] === '*') {
      parts.push('*')
      at += 1
    } else if (text[at] === '{') {
      if (inVariable) throw fault('a variable stands inside another')
      variable()
    } else {
      const end = literalEnd()
      if (end === at) throw fault(`a segment is missing at position ${at}`)
      parts.push({ literal: decodeLiteral(text.slice(at, end), fault) })
      at = end
    }
  }
  const segments = (inVariable: boolean): void => {
    segment(inVariable)
    while (text[at] === '/') {
      at += 1
      segment(inVariable)
    }
  }
  const variable = (): void => {
    const end = text.slice(at).search(/[=}]/)
    if (end < 0) throw fault('a brace is not closed')
    const path = text.slice(at + 1, at + end).split('.')
    if (!path.every((name) => identifier.test(name)))
      throw fault(`"${path.join('.')}" names no field`)
    if (variables.some((other) => other.path.join('.') === path.join('.')))
      throw fault(`${path.join('.')} stands in it twice`)
    at += end
    const from = parts.length
    if (text[at] === '=') {
      at += 1
      segments(true)
    } else parts.push('*')
    if (text[at] !== '}') throw fault('a brace is not closed')
    at += 1
    const taken = parts.slice(from)
    const open = taken.includes('**')
    variables.push({
      path,
      from,
      to: open ? Infinity : parts.length,
      multi: open || taken.length > 1,
    })
  }

  if (text !== '/') segments(false)
  if (text[at] === ':') {
    verb = text.slice(at + 1)
    if (verb === '' || /[/{}:=*]/.test(verb)) throw fault('its verb is no word')
    at = text.length
  }
  if (at < text.length && text !== '/') throw fault(`nothing may stand at position ${at}`)
  const rest = parts.indexOf('**')
  if (rest >= 0 && rest !== parts.length - 1) throw fault('** stands before the end')
  return { text, parts, verb, variables }
}

function decodeLiteral(text: string, fault: (why: string) => RuntimeError): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // Only a malformed escape throws here.
    throw fault(`"${text}" is not percent-encoded properly`)
  }
}
