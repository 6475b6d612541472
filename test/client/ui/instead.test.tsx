import './window.ts'
import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import feedback from '../../../plugins/feedback/index.ts'
import showcase from '../../../plugins/showcase/index.ts'
import { testOracle, type TestOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { person } from './person.tsx'

it('keeps an edit that the network did not let through, and makes one version of it where the answer to that was lost', async () => {
  const model = scriptedModel(['Twelve.', 'Thirteen.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { texts, all, button, write, say } = person(oracle)
  await say('How many wells?')
  await until(() => texts('.oc-markdown').includes('Twelve.'))
  ;(await button('Edit', '.oc-human')).click()
  await until(() => all('.oc-edit').length === 1)
  write('.oc-edit textarea', 'How many wells now?')
  oracle.proxy.isOffline = true
  ;(await button('Send', '.oc-edit')).click()
  await until(() => texts('.oc-error p').join() === 'The server cannot be reached.')
  // The edit is where it was left.
  ;(await button('Edit', '.oc-human')).click()
  await until(() => all('.oc-edit').length === 1)
  expect((all('.oc-edit textarea')[0] as HTMLTextAreaElement).value).toBe('How many wells now?')
  // The server makes the version, and the page does not hear of it.
  oracle.proxy.isOffline = false
  let isLost = false
  oracle.proxy.interfere = async ({ path, method, headers, body }) => {
    if (!path.endsWith('/fork')) return
    const { host: _, connection: __, 'content-length': ___, ...rest } = headers
    await fetch(oracle.app.url + path, { method, headers: rest as Record<string, string>, body })
    isLost = true
    return 'cut'
  }
  ;(await button('Send', '.oc-edit')).click()
  await until(() => isLost && texts('.oc-error p').join() === 'The server cannot be reached.')
  oracle.proxy.interfere = undefined
  ;(await button('Try again', '.oc-error')).click()
  await until(() => texts('.oc-markdown').includes('Thirteen.'))
  expect(texts('.oc-said')).toEqual(['How many wells now?'])
  await until(() => texts('.oc-branches')[0]?.includes('2 / 2'))
})

/** A chat with two answers, whose person then says something more. */
async function talking(oracle: TestOracle) {
  const seen = person(oracle)
  const { texts, say, button, all, write } = seen
  for (const [question, answer] of [
    ['First?', 'One.'],
    ['Second?', 'Two.'],
  ] as const) {
    await say(question)
    await until(() => texts('.oc-markdown').includes(answer))
  }
  const edit = async (nth: number, text: string) => {
    const begin = await until(() => all('.oc-human .oc-begin-edit')[nth])
    begin.click()
    await until(() => all('.oc-edit').length === 1)
    write('.oc-edit textarea', text)
    ;(await button('Send', '.oc-edit')).click()
  }
  return { ...seen, edit }
}

it('rates and edits an earlier message in its place once others behind it were paid for', async () => {
  await using oracle = await testOracle({
    plugins: [showcase, feedback],
    model: scriptedModel(['One.', 'Two.', 'Instead.']),
    env: { NODE_ENV: 'development', SHOWCASE_PACE: '0' },
  })
  const { texts, all, say, button, edit } = await talking(oracle)
  await say('/show payment')
  ;(await button('Pay')).click()
  await until(() => texts('.oc-markdown').some((text) => text.includes('It is paid')))
  expect(texts('.oc-said')).toEqual(['First?', 'Second?', '/show payment'])
  const thumbs = await until(() => {
    const found = all('.oc-ai [aria-label="Good answer"]')
    return found.length > 2 && found
  })
  thumbs[1]?.click()
  await until(() => all('[aria-label="Good answer"]')[1]?.getAttribute('aria-pressed') === 'true')
  await edit(1, 'Another?')
  await until(() => texts('.oc-markdown').join() === 'One.,Instead.')
  expect(texts('.oc-said')).toEqual(['First?', 'Another?'])
  await until(() => texts('.oc-branches').join().includes('2 / 2'))
})

it('edits an earlier message in its place behind which words were refused, and these words themselves', async () => {
  const model = scriptedModel(['One.', 'Two.', 'Shorter.', 'Instead.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { texts, say, edit } = await talking(oracle)
  oracle.proxy.interfere = ({ path, method }) =>
    method === 'POST' && path.startsWith('/messages/')
      ? { status: 413, body: { error: 'PAYLOAD_TOO_LARGE', message: 'It is too long.' } }
      : undefined
  await say('Too long?')
  await until(() => texts('.oc-error p').join() === 'It is too long.')
  oracle.proxy.interfere = undefined
  await edit(2, 'Short?')
  await until(() => texts('.oc-markdown').includes('Shorter.'))
  expect(texts('.oc-markdown')).toEqual(['One.', 'Two.', 'Shorter.'])
  await edit(1, 'Another?')
  await until(() => texts('.oc-markdown').join() === 'One.,Instead.')
  expect(texts('.oc-said')).toEqual(['First?', 'Another?'])
})
