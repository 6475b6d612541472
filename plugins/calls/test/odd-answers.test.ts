import { expect, test } from 'vitest'
import { definePlugin } from '#core'
import { callApp } from '../../../test/support/call-app.ts'
import { call } from '../../../test/support/call-page.ts'
import { describeWith } from '../../../test/support/services.ts'
import calls from '../index.ts'

const patient = { timeout: 60_000, interval: 20 }

/** A voice that writes down what it is to say, and says it in a twentieth of a second. */
function teller() {
  const told: string[] = []
  const plugin = definePlugin({
    name: 'teller',
    summary: 'Says things fast.',
    visibility: 'silent',
    requires: [calls],
    setup({ plugins }) {
      plugins.calls.speech({
        voice: {
          ...{ name: 'teller', where: 'server' },
          async *speak(text) {
            told.push(text)
            yield { rate: 48_000, pcm: new Int16Array(2_400).fill(9_000) }
          },
        },
      })
    },
  })
  return { plugin, told }
}

const sentence = `${Array.from({ length: 5_000 }, (_, i) => `word${i}`).join(' ')}.`
const links = Array.from({ length: 50 }, (_, i) => `see https://example.org/page/${i}?q=a&b=${i}`)
const table = `| City | Rain |\n| --- | --- |\n${Array.from({ length: 20 }, (_, i) => `| Town${i} | ${i} mm |`).join('\n')}`

test.each([
  ['one sentence of 5,000 words', sentence, /word0 .*word4999/s],
  ['only code', '```js\nconst secret = 1\nfetch("https://example.org")\n```', undefined],
  ['only a table', table, /City.*Rain.*Town0.*Town19/s],
  ['only emoji', '😀🎉👍🏽👨‍👩‍👧', undefined],
  ['fifty links', links.join(', '), /^see/],
  ['links with names', '[the page](https://example.org/x) ![a cat](cat.png)', /the page/],
  ['right to left', 'مرحبا، كيف حالك؟ أنا بخير.', /مرحبا/],
  ['without a space', '今日は良い天気です。明日も晴れるでしょう。', /今日は/],
  ['headings, lists and quotes', '# Title\n\n- one\n- two\n\n> said', /Title.*one.*two.*said/s],
  ['markup', '<b>bold</b> <script>alert(1)</script> text', /bold.*text/s],
  ['control characters', 'a\u0007b\u202ec', /a.*b.*c/],
  ['nothing but marks', '***\n---\n...', undefined],
])(
  'an answer that is %s: what can be said is said, all of it is shown, and the call goes on',
  async (_, answer, said) => {
    const { plugin, told } = teller()
    const { user, sessionId } = await callApp([answer, 'I am here.'], {
      plugins: [plugin],
      env: { CALLS_HEARING: 'typed', CALLS_VOICE: 'teller', CALLS_IDLE_SECONDS: '3600' },
    })
    const { page, callId } = await call(user, sessionId)
    page.send({ type: 'say', id: 'a', text: 'Tell me.' })
    await expect.poll(() => page.said, patient).toBe(answer)
    await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
    const voiced = told.join(' ')
    if (said) expect(voiced).toMatch(said)
    else expect(told).toEqual([])
    expect(voiced).not.toMatch(
      /https?:|secret|```|[*#|<>]|[\p{Extended_Pictographic}\u0007\u202e]/u,
    )
    // No piece is so long that a voice takes minutes for it.
    for (const piece of told) expect(piece.length).toBeLessThanOrEqual(600)
    page.send({ type: 'say', id: 'b', text: 'Are you there?' })
    await expect.poll(() => told.at(-1), patient).toBe('I am here.')
    await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(messages.map(({ content }: { content: string }) => content)).toEqual([
      ...['Tell me.', answer, 'Are you there?', 'I am here.'],
    ])
    expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
  },
  120_000,
)

await describeWith('espeak', 'a language that the voice lacks', () => {
  test('is read, and the call goes on', async () => {
    const { user, sessionId } = await callApp(['Nuqneh. Qapla.', 'I am here.'], {
      env: { CALLS_HEARING: 'typed', CALLS_VOICE: 'espeak' },
    })
    const { page, callId } = await call(user, sessionId, { language: 'xx-klingon' })
    page.send({ type: 'say', id: 'a', text: 'Tell me.' })
    await expect.poll(() => page.said, patient).toBe('Nuqneh. Qapla.')
    await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
    for (const notice of page.of('notice')) expect(notice.code).toBe('VOICE_FAILED')
    expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
    await user.delete(`/calls/${callId}`)
    // In the next call the same voice speaks.
    const next = await call(user, sessionId, { language: 'en' })
    next.page.send({ type: 'say', id: 'b', text: 'Are you there?' })
    await expect.poll(() => next.page.isHeard(), patient).toBe(true)
  }, 120_000)
})

test('a program that hears and never ends is given up, and the person is told', async () => {
  const { user, sessionId } = await callApp([], {
    env: {
      CALLS_HEARING: 'command',
      CALLS_HEARING_COMMAND: '["sleep","600"]',
      CALLS_VOICE: 'none',
    },
  })
  const { page, callId } = await call(user, sessionId)
  // Noise that goes up and down as speech does.
  const sound = Int16Array.from({ length: 48_000 * 2 }, (_, i) => {
    const loud = i < 48_000 ? 0.5 + 0.5 * Math.sin(i / 3_000) : 0
    return 12_000 * loud * Math.sin(i / 60) * Math.sin(i / 17)
  })
  await page.play(sound)
  await expect.poll(() => page.of('notice'), patient).toMatchObject([{ code: 'HEARING_FAILED' }])
  expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
}, 120_000)
