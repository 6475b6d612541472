import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { fakeProvider, testApp, type FakeProvider } from '#core/testing'

const notes = definePlugin({
  name: 'notes',
  summary: 'Notes words.',
  visibility: 'always',
  tools: {
    note: {
      description: 'Notes a word.',
      effect: 'read',
      input: z.object({ word: z.string() }),
      run: ({ word }) => ({ noted: word }),
    },
  },
})

const note = (word: string) => ({ name: 'note', args: { word } })

/** A turn of three calls in which every answer with calls is signed. */
function answersOn(provider: FakeProvider): void {
  provider.answer(
    { reasoning: ['Two words.', 'Both at once.'], calls: [note('red'), note('blue')] },
    { reasoning: 'One is left.', text: 'One more.', calls: [note('green')] },
    'Noted.',
  )
}

const wires = [
  { id: 'anthropic/fake-large', env: ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL'] },
  { id: 'google/fake-large', env: ['GEMINI_API_KEY', 'GOOGLE_BASE_URL'] },
] as const

async function started(budget: boolean) {
  const provider = await fakeProvider(budget ? { refuses: ['adaptive'] } : {})
  onTestFinished(() => provider.close())
  const env: Record<string, string> = {
    MODEL: wires.map(({ id }) => id).join(),
    MODEL_SETTINGS: JSON.stringify({ '*': { reasoning: 'low' } }),
  }
  for (const {
    env: [key, address],
  } of wires) {
    env[key] = provider.key
    env[address] = provider.url
  }
  const app = await testApp({ plugins: [notes], env })
  onTestFinished(() => app.close())
  return { app, provider }
}

describe.each(wires)('a turn of three calls on $id', ({ id }) => {
  it('finishes, and so does the next one after a crash', async () => {
    const { app, provider } = await started(false)
    answersOn(provider)
    const first = await (await app.user('ann')).say('Note it', { body: { model: id } })
    expect(provider.refusals).toEqual([])
    expect(first).toMatchObject({ status: 'finished', text: expect.stringContaining('Noted.') })
    await app.crash()
    await app.again()
    answersOn(provider)
    const { sessionId } = first
    const second = await (await app.user('ann')).say('And again', { sessionId })
    expect(second.status).toBe('finished')
    expect(provider.refusals).toEqual([])
    expect(provider.remaining).toBe(0)
    expect(app.log.join('\n')).not.toContain(provider.key)
  })

  it('finishes on another provider in between, which is sent none of its data', async () => {
    const { app, provider } = await started(true)
    const other = wires.find((wire) => wire.id !== id)?.id
    const user = await app.user('bob')
    answersOn(provider)
    const { sessionId } = await user.say('Note it', { body: { model: id } })
    for (const model of [other, id]) {
      answersOn(provider)
      const said = await user.say('And again', { sessionId, body: { model } })
      expect(said.status).toBe('finished')
    }
    // The one refusal is the way to think that the model does not know.
    const refusals = provider.refusals.filter((text) => !text.startsWith('adaptive thinking'))
    expect(refusals).toEqual([])
    for (const { wire, text } of provider.requests) {
      if (wire === 'messages') expect(text).not.toContain('thoughtSignature')
      else expect(text).not.toContain('"type":"thinking"')
    }
  })
})
