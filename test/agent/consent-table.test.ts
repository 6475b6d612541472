import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import type { AnyTool } from '../../core/plugin.ts'
import { capabilityTools } from '../../core/runtime/agent/turn/capabilities.ts'
import { bundled } from '../../plugins/index.ts'

const page = readFileSync(resolve(import.meta.dirname, '../../docs/security.md'), 'utf8')
const yes = (is: boolean) => (is ? 'yes' : 'no')

/** A tool as the table has it, without the reason. */
function rowOf(plugin: string, name: string, { effect = 'write', foreign, approve }: AnyTool) {
  const asks = typeof approve === 'function' ? 'sometimes' : yes(approve === true)
  return [plugin, `\`${name}\``, effect, yes(foreign ?? effect === 'read'), asks].join(' | ')
}

it('the page on security says of every bundled tool what its definition says', () => {
  const section = page.split('### What each bundled tool may do')[1]?.split('\n## ')[0] ?? ''
  const rows = [...section.matchAll(/^\| (.+?) +\|$/gm)]
    .map(([, row = '']) => row.split(/ +\| +/))
    .slice(2)
  const kernel = Object.entries(capabilityTools([])).map(([name, { effect }]) =>
    ['kernel', `\`${name}\``, effect, 'no', 'no'].join(' | '),
  )
  const defined = bundled.flatMap(({ name, definition: { tools = {} } }) => {
    if (typeof tools === 'function') throw new Error(`${name} makes its tools at boot: list them.`)
    return Object.entries(tools).map(([tool, made]) => rowOf(name, tool, made))
  })
  expect(rows.map((row) => row.slice(0, 5).join(' | ')).toSorted()).toEqual(
    [...kernel, ...defined].toSorted(),
  )
  for (const row of rows) expect(row[5], row.join()).toMatch(/\w{3}/)
})
