import type { GatewayApi } from './document.ts'

/** The headers of the page: it runs no script, loads nothing, and stands in no frame. */
export const pageHeaders = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy':
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
}

interface Described {
  readonly operationId?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema?: Shown
  }[]
  readonly requestBody?: {
    readonly content?: Readonly<Record<string, { readonly schema?: Shown }>>
  }
  readonly responses?: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: Shown }>> }>
  >
  readonly 'x-not-implemented'?: boolean
}

interface Shown {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly items?: Shown
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Shown>>
  readonly description?: string
}

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #ccc}article{margin:1.5rem 0}h3{font:600 1rem ui-monospace,monospace;margin:0}
table{border-collapse:collapse;margin:.5rem 0;width:100%}td,th{text-align:left;padding:.15rem .8rem .15rem 0;vertical-align:top}
th{font-weight:600;color:#555}code{font:.9rem ui-monospace,monospace;overflow-wrap:anywhere}p{margin:.3rem 0;white-space:pre-line}
.off{color:#a40000}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}h2{border-color:#444}th{color:#aaa}.off{color:#ff8f8f}}`

/** The OpenAPI document as a page to read: every method with its path, its parameters and what it answers. */
export function pageOf({ paths, components, info, tags }: GatewayApi): string {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([verb, one]) => ({
      path,
      verb: verb.replace(/^x-/, '').toUpperCase(),
      operation: one as Described, // `describeGateway` made it
    })),
  )
  const groups = Map.groupBy(operations, ({ operation }) => operation.tags?.[0] ?? '')
  const about = new Map(
    (Array.isArray(tags) ? (tags as { name: string; description?: string }[]) : []).map((tag) => [
      tag.name,
      tag.description ?? '',
    ]),
  )
  const { title } = info as { title: string } // `describeGateway` made it
  const services = [...groups].map(
    ([name, group]) =>
      `<section><h2 id="${safe(name)}">${safe(name)}</h2><p>${safe(about.get(name) ?? '')}</p>${group.map(articleOf).join('')}</section>`,
  )
  const schemas = Object.entries(components.schemas).map(([name, schema]) => schemaOf(name, schema))
  return (
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">` +
    `<title>${safe(title)}</title><style>${style}</style><main><h1>${safe(title)}</h1>` +
    `<p>${operations.length} bindings. The same as data: <a href="openapi.json">openapi.json</a></p>` +
    `${services.join('')}<section><h2>Messages</h2>${schemas.join('')}</section></main></html>`
  )
}

function articleOf({
  path,
  verb,
  operation,
}: {
  path: string
  verb: string
  operation: Described
}): string {
  const { operationId = '', description = '', parameters = [], requestBody, responses } = operation
  const body = requestBody?.content?.['application/json']?.schema
  const answers = Object.values(responses?.[200]?.content ?? {})[0]?.schema
  const rows = parameters.map(
    (one) =>
      `<tr><td><code>${safe(one.name)}</code><td>${safe(one.in)}${one.required ? ', required' : ''}` +
      `<td>${typeOf(one.schema)}<td>${safe(one.description ?? '')}`,
  )
  const table =
    rows.length === 0 ? '' : `<table><tr><th>name<th>in<th>type<th>${rows.join('')}</table>`
  const missing = operation['x-not-implemented']
    ? '<p class="off">The upstream does not implement it.</p>'
    : ''
  return (
    `<article id="${safe(operationId)}"><h3>${verb} ${safe(path)}</h3><code>${safe(operationId)}</code>` +
    `<p>${safe(description)}</p>${missing}${table}` +
    `${body ? `<p>Body: ${typeOf(body)}</p>` : ''}${answers ? `<p>Answers: ${typeOf(answers)}</p>` : ''}</article>`
  )
}

function schemaOf(name: string, schema: Shown): string {
  const rows = Object.entries(schema.properties ?? {}).map(
    ([field, one]) =>
      `<tr><td><code>${safe(field)}</code><td>${typeOf(one)}<td>${safe(one.description ?? '')}`,
  )
  const table = rows.length === 0 ? typeOf(schema) : `<table>${rows.join('')}</table>`
  return `<article id="schema-${safe(name)}"><h3>${safe(name)}</h3>${table}</article>`
}

function typeOf(schema: Shown | undefined, depth = 0): string {
  if (schema === undefined || depth > 4) return ''
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1) ?? ''
    return `<a href="#schema-${safe(name)}">${safe(name)}</a>`
  }
  if (schema.items) return `list of ${typeOf(schema.items, depth + 1)}`
  if (schema.enum) return safe(schema.enum.slice(0, 50).map(String).join(' | '))
  return safe([schema.type ?? ''].flat().join(' | '))
}

/** Text as it may stand in a page and in an attribute: comments and names come from descriptors of others. */
const safe = (text: string): string =>
  text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
