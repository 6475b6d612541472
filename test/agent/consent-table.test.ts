import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import type { AnyTool } from '../../core/plugin.ts'
import memory from '../../plugins/memory/index.ts'
import { roomTools } from '../../plugins/messaging/answering/sending-files.ts'
import messaging from '../../plugins/messaging/index.ts'
import { type ToolTurn, toolsOf } from '../../plugins/memory/tools.ts'
import { verdictTools } from '../../plugins/registry/evaluation/verdict.ts'
import registry from '../../plugins/registry/index.ts'
import { everyPlugin } from '../support/every-plugin.ts'

const page = readFileSync(resolve(import.meta.dirname, '../../docs/security.md'), 'utf8')
const yes = (is: boolean) => (is ? 'yes' : 'no')

/** What a tool says of itself. */
type Told = Pick<AnyTool, 'effect' | 'foreign'> & { readonly approve?: unknown }

/** A tool as the table has it, without the reason. */
function rowOf(plugin: string, name: string, { effect = 'write', foreign, approve }: Told) {
  const asks = typeof approve === 'function' ? 'sometimes' : yes(approve === true)
  return [plugin, `\`${name}\``, effect, yes(foreign ?? effect === 'read'), asks].join(' | ')
}

/** The tools of the kernel, as a model is shown them and as a layer around tools sees them called. */
async function kernelTools() {
  const called: { name: string; effect: string }[] = []
  const watcher = definePlugin({
    name: 'watcher',
    summary: 'Sees every call of a tool.',
    visibility: 'always',
    // After a result that was cut the model is shown every tool of the kernel.
    tools: {
      long: {
        description: 'Gives a long result.',
        effect: 'read',
        foreign: false,
        input: z.object({}),
        run: () => 'x'.repeat(100_000),
      },
    },
    middleware: {
      tool({ name, plugin, effect }, _, next) {
        if (name === 'long') return next()
        expect(plugin).toBe('kernel')
        called.push({ name, effect })
        return next()
      },
    },
  })
  const args: Readonly<Record<string, object>> = {
    load_capability: { names: ['watcher'] },
    read_result: { handle: 'r1' },
  }
  const isKernels = ({ name }: { readonly name: string }) => name !== 'long'
  const model = scriptedModel([
    { call: 'long' },
    ({ tools }) => tools.filter(isKernels).map(({ name }) => ({ call: name, args: args[name] })),
    'Done.',
  ])
  await using app = await testApp({ plugins: [watcher], model })
  await (await app.user()).say('Call everything')
  const offered = model.requests[1]?.tools.filter(isKernels).map(({ name }) => name)
  expect(called.map(({ name }) => name)).toEqual(offered)
  return called
}

/** What `toolsFor` of a plugin gives a turn that has all of its tools; of a tool server they are not known before it is asked. */
async function turnTools(): Promise<Record<string, Record<string, Told>>> {
  const standing = { standingOf: async () => ({ mode: 'on' }) }
  const turn = { user: {}, session: {}, shared: false, self: standing } as unknown as ToolTurn
  return {
    [memory.name]: await toolsOf(turn),
    [registry.name]: verdictTools({ origin: 'registry' }) ?? {},
    [messaging.name]: roomTools({ origin: 'messaging' }) ?? {},
  }
}

it('the page on security says of every bundled tool what its definition says', async () => {
  const section = page.split('### What each bundled tool may do')[1]?.split('\n## ')[0] ?? ''
  const rows = [...section.matchAll(/^\| (.+?) +\|$/gm)]
    .map(([, row = '']) => row.split(/ +\| +/))
    .slice(2)
  const kernel = (await kernelTools()).map(({ name, effect }) =>
    // A page of an earlier result is foreign where that result was; test/agent/large-results.test.ts shows it.
    ['kernel', `\`${name}\``, effect, name === 'read_result' ? 'as read' : 'no', 'no'].join(' | '),
  )
  const perTurn = await turnTools()
  const plugins = everyPlugin.flatMap((entry) =>
    typeof entry === 'function' ? entry({}) : [entry],
  )
  // What is there in development alone shows things that are made up.
  const lasting = plugins.filter(({ definition }) => definition.defaultState !== 'development')
  const defined = lasting.flatMap(({ name, definition: { tools = {}, toolsFor } }) => {
    if (typeof tools === 'function') throw new Error(`${name} makes its tools at boot: list them.`)
    if (toolsFor && !perTurn[name]) throw new Error(`${name} has tools of a turn: list them above.`)
    // What `toolsFor` gives is foreign unless it says otherwise, whatever its effect.
    const ofTurns = Object.entries(perTurn[name] ?? {}).map(
      ([tool, { foreign = true, ...made }]) => [tool, { ...made, foreign }] as const,
    )
    return [...Object.entries(tools), ...ofTurns].map(([tool, made]) => rowOf(name, tool, made))
  })
  expect(rows.map((row) => row.slice(0, 5).join(' | ')).toSorted()).toEqual(
    [...kernel, ...defined].toSorted(),
  )
  for (const row of rows) expect(row[5], row.join()).toMatch(/\w{3}/)
})
