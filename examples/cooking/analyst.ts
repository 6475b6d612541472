import type { Model } from '#core'

/**
 * Stands where a language model stands, so that the example runs without a key: it reads the readings that the turn quotes,
 * and says whether the days are alike. With MODEL set, that model decides instead.
 */
export const analyst: Model = {
  id: 'stove-analyst',
  label: 'An analyst of the example, without a key',
  async *stream({ messages, tools, signal }) {
    signal.throwIfAborted()
    const told = messages.map(({ content }) => content).join('\n')
    const hasDecided = messages.some(({ role }) => role === 'tool')
    const minutes = [...told.matchAll(/"day\\*":\\*"[\d-]+\\*",\\*"minutes\\*":(\d+)/g)].map(
      ([, figure]) => Number(figure),
    )
    if (hasDecided || !tools.some(({ name }) => name === 'give_verdict')) {
      yield { type: 'text', text: 'I have looked at the readings and decided.' }
    } else {
      const days = minutes.slice(0, 31)
      const kinds = new Set(days).size
      const verdict = days.length < 5 ? 'uncertain' : kinds < days.length / 5 ? 'reject' : 'approve'
      const reasons = [`${days.length} days show ${kinds} different times of cooking.`]
      const args = JSON.stringify({ verdict, reasons })
      yield { type: 'tool-call', index: 0, name: 'give_verdict', args }
    }
    yield { type: 'usage', inputTokens: Math.ceil(told.length / 4), outputTokens: 40 }
  },
}
