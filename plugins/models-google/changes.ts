import type { Changes, WireRefusal } from '#core/models'

/** Fields of `generationConfig` that are left out when the server names them. */
const optional = ['temperature', 'topP', 'includeThoughts'] as const

/** What of a request to change, because the server refused it by name. */
export function changeOf(
  { text }: WireRefusal,
  changes: Changes,
): readonly [name: string, value: unknown] | undefined {
  const length =
    /maxOutputTokens value of \d+ but the supported range is from \d+ \(inclusive\) to (\d+)/
  const most = length.exec(text)?.[1]
  if (most) return ['maxOutputTokens', Number(most) - 1]
  if (/alternate between user and model/.test(text)) return ['alternate', true]
  if (/response_?json_?schema|response_?schema|response_?mime_?type/i.test(text))
    return ['responseJsonSchema', false]
  for (const field of optional)
    if (new RegExp(`\\b(${snake(field)}|${field})\\b`).test(text)) return [field, false]
  if (/thought_?signature/i.test(text)) return undefined
  if (/thinking/i.test(text)) return thinkingChange(text, changes)
  return undefined
}

/** Another way to say how much to think: older models take a budget, newer ones a level, and some neither. */
function thinkingChange(text: string, changes: Changes): readonly [string, unknown] {
  const isLevel = /thinking[_ ]?level/i.test(text)
  const lacked = /\b(minimal|medium)\b/i.exec(text)?.[1]?.toLowerCase()
  if (isLevel && lacked && !changes.has(lacked)) return [lacked, false]
  const isBudget = /budget/i.test(text)
  if (!changes.has('thinking') && isLevel) return ['thinking', 'budget']
  if (!changes.has('thinking') && isBudget) return ['thinking', 'level']
  return ['thinking', 'off']
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
