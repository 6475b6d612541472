import './window.ts'
import { Profiler } from 'react'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Model } from '#core'
import { call, scriptedModel } from '#core/testing'
import { Message, type MessageProps } from '../../../client/ui.ts'
import { testOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { person } from './person.tsx'

/** A model that says a word whenever the test asks for one. */
function wordByWord(words: number) {
  const gates = Array.from({ length: words }, () => Promise.withResolvers<void>())
  let turn = 0
  const model: Model = {
    id: 'slow',
    async *stream() {
      if (turn++ < 2) return yield { type: 'text', text: `Answer ${turn}.` }
      for (const [nth, gate] of gates.entries()) {
        await gate.promise
        yield { type: 'text', text: `word${nth} ` }
      }
    },
  }
  return { model, say: (nth: number) => gates[nth]?.resolve() }
}

it('draws a message again when it has changed, and not when another one grows', async () => {
  const words = 20
  const { model, say } = wordByWord(words)
  await using oracle = await testOracle({ plugins: [], model })
  const renders = new Map<string, number>()
  const Counted = (props: MessageProps) => (
    <Profiler id={props.message.id} onRender={(id) => renders.set(id, (renders.get(id) ?? 0) + 1)}>
      <Message {...props} />
    </Profiler>
  )
  const { texts, say: tell, all } = person(oracle, { components: { Message: Counted } })
  for (const nth of [1, 2]) {
    await tell(`Question ${nth}`)
    await until(() => texts('.oc-markdown').includes(`Answer ${nth}.`))
    await until(() => all('.oc-cursor').length === 0)
  }
  await tell('Question 3')
  say(0)
  await until(() => texts('.oc-markdown').at(-1)?.startsWith('word0'))
  const before = new Map(renders)
  for (let nth = 1; nth < words - 1; nth++) {
    say(nth)
    await until(() => texts('.oc-markdown').at(-1)?.endsWith(`word${nth}`))
  }
  const grown = [...renders].filter(([id, count]) => count !== before.get(id))
  expect(grown).toHaveLength(1)
  const [[id = '', count = 0] = []] = grown
  expect(count - (before.get(id) ?? 0)).toBeGreaterThanOrEqual(words - 2)
  expect(renders.size).toBeGreaterThanOrEqual(6)
  say(words - 1)
  await until(() => all('.oc-cursor').length === 0)
})

it('offers no other answer while a call of this one waits for a person, also after a reload', async () => {
  const post = definePlugin({
    name: 'post',
    summary: 'Letters.',
    visibility: 'always',
    tools: {
      send: {
        description: 'Sends a letter, and asks before.',
        approve: true,
        input: z.object({ to: z.string() }),
        run: ({ to }) => `sent to ${to}`,
      },
    },
  })
  const steps = [{ text: 'I would send it.', calls: [call('send', { to: 'Ada' })] }, 'Ada has it.']
  await using oracle = await testOracle({ plugins: [post], model: scriptedModel(steps) })
  const sessionId = await oracle.session()
  const first = person(oracle, { sessionId })
  const names = (seen: typeof first) => seen.texts('.oc-ai .oc-actions button')
  await first.say('Write to Ada.')
  await first.button('Approve')
  await until(() => names(first).length > 0)
  expect(names(first)).not.toContain('Answer again')
  first.unmount()
  const second = person(oracle, { sessionId }, oracle.within(oracle.tab()))
  await second.button('Approve')
  await until(() => names(second).length > 0)
  expect(names(second)).not.toContain('Answer again')
  ;(await second.button('Approve')).click()
  await until(() => second.texts('.oc-markdown').includes('Ada has it.'))
  await second.button('Answer again', '.oc-ai')
})
