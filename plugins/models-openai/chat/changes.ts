import type { Changes, WireRefusal } from '#core/models'

/** How much a model is to think, from most to least: what a server does not know is asked for one step lower. */
const lower: Readonly<Record<string, string>> = { xhigh: 'high', none: 'minimal' }

/** What of a request to change, because the server refused it by name. */
export function changeOf(
  { text }: WireRefusal,
  changes: Changes,
): readonly [name: string, value: unknown] | undefined {
  if (text.includes('stream_options')) return ['stream_options', false]
  if (/missing a thought_?signature/i.test(text)) return ['thought_signature', 'skip']
  if (text.includes('reasoning_content')) {
    const isMissed = /missing|must be|required|passed back/i.test(text)
    return ['reasoning_content', isMissed ? 'always' : 'never']
  }
  if (/max(_completion)?_tokens/.test(text)) return lengthChange(text, changes)
  if (text.includes('reasoning_effort')) {
    const now = /['"`](xhigh|none)['"`]/.exec(text)?.[1]
    const next = now !== undefined && !changes.has('reasoning_effort') ? lower[now] : undefined
    return ['reasoning_effort', next ?? false]
  }
  for (const field of ['temperature', 'top_p', 'response_format', 'tool_choice'])
    if (text.includes(field)) return [field, false]
  return undefined
}

/** Another field for the longest answer, or the number that the server names. */
function lengthChange(text: string, changes: Changes): readonly [string, unknown] | undefined {
  const other = /use ['"`]?(max_completion_tokens|max_tokens)/i.exec(text)?.[1]
  if (other && changes.get('length_field') !== other) return ['length_field', other]
  const [, number] =
    /(?:at most|maximum|less than or equal to|<=|up to)\D{0,40}(\d{2,9})/i.exec(text) ?? []
  return number ? ['length', Number(number)] : undefined
}
