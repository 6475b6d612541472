import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { contractChecks, fakeProvider, modelContract, testApp } from '#core/testing'
import acme from './index.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/write-a-provider.md'), 'utf8')

it('the wire of the page has at most 150 lines', () => {
  const [, code = ''] =
    /<!-- include: examples\/acme-models\/index\.ts -->\n\n```ts\n(.*?)```/s.exec(page) ?? []
  const wire = code.slice(code.indexOf('const variables'), code.indexOf('export default'))
  expect(wire).toContain('class Reader')
  expect(code.split('\n').length).toBeLessThanOrEqual(200)
  expect(wire.split('\n').length).toBeLessThanOrEqual(150)
})

it.each([
  ['keeps the contract of models', {}, undefined],
  ['gives back what its provider signs', { chat: 'extra_content' }, ['tool loop']],
] as const)('the wire of the page %s', async (_, rules, only) => {
  await using provider = await fakeProvider(rules)
  const { models } = acme.definition
  if (typeof models !== 'object' || !models.acme) throw new Error('The plugin brings no models.')
  const { open } = models.acme
  const quiet = () => {}
  const ctx = {
    env: { ACME_API_KEY: provider.key, ACME_BASE_URL: provider.url },
    self: undefined,
    settings: {},
    fetch,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
  }
  const report = await modelContract(
    ({ answers }) => {
      provider.clear()
      provider.answer(...answers)
      return open('fake-large', ctx)
    },
    { key: provider.key, only },
  )
  expect(report.findings).toEqual([])
  expect(report.checked).toEqual(contractChecks({ only }).map(({ name }) => name))
})

it('an app answers with a model of the page', async () => {
  await using provider = await fakeProvider({ chat: 'extra_content' })
  provider.answer('Hello from Acme.')
  await using app = await testApp({
    plugins: [acme],
    env: { MODEL: 'acme/fake-large', ACME_API_KEY: provider.key, ACME_BASE_URL: provider.url },
  })
  expect((await (await app.user('ann')).say('Hi')).text).toBe('Hello from Acme.')
})
