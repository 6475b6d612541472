import type { WireRefusal } from '#core/models'

/** What of a request to change, because the server refused it by name. */
export function changeOf({
  text,
}: WireRefusal): readonly [name: string, value: unknown] | undefined {
  if (/think value .*not supported|invalid think value/i.test(text)) return ['think_levels', false]
  if (/does not support thinking/i.test(text)) return ['think', false]
  // Servers that knew no levels could not read a text there.
  if (/cannot unmarshal string .*think/i.test(text)) return ['think_levels', false]
  if (/invalid format|unmarshal .*format/i.test(text)) return ['format', false]
  return undefined
}
