import './window.ts'
import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import { testOracle } from '../oracle.ts'
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
