import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import { useChat, type SendOptions } from '../../../client/index.ts'
import { testOracle } from '../oracle.ts'
import { hook, until } from '../page.ts'
import { html, png } from '../../support/sample-files.ts'

const never = () => {
  throw new Error('Nothing was to be paid.')
}
const dataUrl = (bytes: Uint8Array) =>
  `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`

it('a picture goes along with a message, and one that is refused is told', async () => {
  const seeing = scriptedModel(['I see a roof.'], { reads: { image: ['image/png'] } })
  await using oracle = await testOracle({ plugins: [], model: seeing })
  const { oracleDid, overrides } = oracle
  const sessionId = await oracle.session()
  const seen = hook(
    () => useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: never }),
    oracle.provided,
  )
  await until(() => seen.now?.isConfigReady)
  const picture = (bytes: Uint8Array): SendOptions => ({
    attachments: [{ filename: 'roof.png', mimetype: 'image/png', url: dataUrl(bytes) }],
  })
  await seen.now.sendMessage('What is this?', picture(png()))
  await until(() => seen.now.messages.at(-1)?.content === 'I see a roof.')
  const asked = seeing.requests[0]?.messages.at(-1)
  expect(asked).toMatchObject({ parts: [{ type: 'image', name: 'roof.png' }] })
  await seen.now.sendMessage('And this?', picture(html()))
  expect(seen.now.sendMessageError).toMatchObject({ serverCode: 'ATTACHMENT_TYPE', status: 415 })
  expect(seeing.requests).toHaveLength(1)
})
