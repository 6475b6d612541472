import type { Changes, WireRefusal } from '#core/models'

/** What of a request to change, because the server refused it by name. */
export function changeOf(
  { text }: WireRefusal,
  changes: Changes,
): readonly [name: string, value: unknown] | undefined {
  const most = /max_tokens: \d+ > (\d+)/.exec(text)?.[1]
  if (most) return ['max_tokens', Number(most)]
  // What is wrong with a message, such as a signature, is mended by no setting.
  if (/messages\.\d+/.test(text)) return undefined
  const has = (words: RegExp) => words.test(text)
  if (has(/output_config\.format|structured output/i)) return ['format', false]
  if (has(/effort/) && !has(/thinking\.type/)) {
    const isTooMuch = has(/\bmax\b/) && !changes.has('effort')
    return ['effort', isTooMuch ? 'high' : false]
  }
  if (has(/cannot both be specified/)) return ['top_p', false]
  for (const field of ['temperature', 'top_p', 'cache_control'])
    if (text.includes(field)) return [field, false]
  if (has(/thinking/)) return thinkingChange(text, changes)
  if (has(/tool_choice/)) return ['tool_choice', false]
  return undefined
}

/** Another way to think: models know one of the two ways, both, or none. */
function thinkingChange(text: string, changes: Changes): readonly [string, unknown] | undefined {
  if (/tool_choice|must be greater|max_tokens/.test(text)) return undefined
  if (/thinking\.type\.disabled/.test(text)) return ['disabled', false]
  const refused = /thinking\.type\.enabled/.test(text) ? 'enabled' : 'adaptive'
  const names = /adaptive|thinking\.type\.enabled/.test(text)
  const now = changes.get('thinking') ?? 'adaptive'
  if (names && now === refused && !changes.has('thinking')) return ['thinking', 'enabled']
  if (names && now !== refused) return undefined
  return ['thinking', 'off']
}
