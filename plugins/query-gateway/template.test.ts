import { describe, expect, it } from 'vitest'
import { createRouteTable } from './operations/route-table.ts'
import { parseTemplate } from './operations/template.ts'

/** The value of the first variable, or the message of the error. */
function match(template: string, path: string): Record<string, string> | undefined {
  const parsed = parseTemplate(template)
  const table = createRouteTable([
    { verb: 'GET', template: parsed, value: parsed, name: 'a.Query/Get' },
  ])
  const found = table.find('GET', path)
  return (
    found &&
    Object.fromEntries(
      parsed.variables.map(({ path }, index) => [path.join('.'), found.values[index]!]),
    )
  )
}

describe('the template grammar of google/api/http.proto', () => {
  it.each<[string, string, Record<string, string> | undefined]>([
    ['/v1/messages', '/v1/messages', {}],
    ['/v1/messages', '/v1/message', undefined],
    ['/v1/messages', '/v1/messages/', undefined],
    ['/v1/*/x', '/v1/a/x', {}],
    ['/v1/**', '/v1/a/b/c', {}],
    ['/v1/**', '/v1', {}],
    ['/v1/{name}', '/v1/a', { name: 'a' }],
    ['/v1/{name}', '/v1/', undefined],
    ['/v1/{name}', '/v1/a/b', undefined],
    ['/v1/{name=*}', '/v1/a', { name: 'a' }],
    ['/v1/{name=messages/*}', '/v1/messages/1', { name: 'messages/1' }],
    ['/v1/{name=messages/*}', '/v1/others/1', undefined],
    ['/v1/{name=shelves/*/books/*}', '/v1/shelves/1/books/2', { name: 'shelves/1/books/2' }],
    ['/v1/{name=**}', '/v1/a/b/c', { name: 'a/b/c' }],
    ['/v1/{name=files/**}', '/v1/files/a/b', { name: 'files/a/b' }],
    ['/v1/{a.b.c}', '/v1/x', { 'a.b.c': 'x' }],
    ['/v1/{a}/{b}', '/v1/x/y', { a: 'x', b: 'y' }],
    ['/v1/{name}:cancel', '/v1/x:cancel', { name: 'x' }],
    ['/v1/{name}:cancel', '/v1/x', undefined],
    ['/v1/{name}:cancel', '/v1/x:other', undefined],
    ['/v1/{name=**}:cancel', '/v1/x/y:cancel', { name: 'x/y' }],
    ['/v1/{name}', '/v1/did:x:1', { name: 'did:x:1' }],
    ['/v1/{name}', '/v1/a%2Fb', { name: 'a/b' }],
    ['/v1/{name}', '/v1/%C3%A9%20%3A', { name: 'é :' }],
    ['/v1/{name=**}', '/v1/a%2Fb/c%20d', { name: 'a%2Fb/c d' }],
    ['/', '/', {}],
  ])('%s at %s', (template, path, expected) => {
    expect(match(template, path)).toEqual(expected)
  })

  it.each([
    ['v1', 'begin with a slash'],
    ['/v1/{name', 'not closed'],
    ['/v1/{a={b}}', 'inside another'],
    ['/v1/{1a}', 'names no field'],
    ['/v1/{a}/{a}', 'twice'],
    ['/v1//x', 'segment is missing'],
    ['/v1/**/x', 'before the end'],
    ['/v1/x:', 'no word'],
    ['/v1/x}', 'may stand'],
  ])('refuses %s', (template, why) => {
    expect(() => parseTemplate(template)).toThrow(why)
  })

  it('puts a literal before a variable, a verb before data, and the rest last', () => {
    const templates = ['/e/{id}', '/e/params', '/e/{id=**}', '/e/{id}:cancel', '/e/{id}/x']
    const table = createRouteTable(
      templates.map((text) => ({
        verb: 'GET',
        template: parseTemplate(text),
        value: text,
        name: text,
      })),
    )
    const at = (path: string) => table.find('GET', path)?.value
    expect(at('/e/params')).toBe('/e/params')
    expect(at('/e/other')).toBe('/e/{id}')
    expect(at('/e/other:cancel')).toBe('/e/{id}:cancel')
    expect(at('/e/did:x:1')).toBe('/e/{id}')
    expect(at('/e/params/x')).toBe('/e/{id}/x')
    expect(at('/e/a/b/c')).toBe('/e/{id=**}')
    expect(table.methods('/e/params')).toEqual(['GET'])
    expect(() => at('/e/%zz')).toThrow('not percent-encoded')
  })
})
