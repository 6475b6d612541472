import type { DescField, Message } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'

/** The paths of a FieldMask that came as text, and where in the message the mask stands. */
export interface Mask {
  /** The fields that lead to the mask, from the outermost to the mask's own. */
  readonly fields: readonly DescField[]
  readonly texts: readonly string[]
}

/** Whether a field is a FieldMask, or a list of these. */
export const isMask = ({ message }: DescField): boolean =>
  message?.typeName === 'google.protobuf.FieldMask'

/**
 * Puts the paths of a mask into a parsed message, in which the mask stands empty. JSON knows paths in camelCase only, and
 * a name such as `line_1` does not survive the way there and back; in a query the paths come as the descriptors have them.
 */
export function setMask(message: Message, { fields, texts }: Mask): void {
  let at: unknown = message
  for (const { oneof, localName } of fields) {
    const value: unknown = Reflect.get(Object(at), oneof ? oneof.localName : localName)
    at = oneof ? Reflect.get(Object(value), 'value') : value
  }
  for (const [index, text] of texts.entries())
    Reflect.set(Object(Array.isArray(at) ? at[index] : at), 'paths', pathsOf(text))
}

const path = /^(\*|[A-Za-z_]\w*)(\.(\*|[A-Za-z_]\w*))*$/

function pathsOf(text: string): string[] {
  if (text === '') return []
  return text.split(',').map((one) => {
    if (!path.test(one))
      throw new RuntimeError('INVALID_INPUT', `"${one}" is no path of a field mask.`, {
        hint: 'Write names of fields with dots between, and commas between paths: name,owner.name',
      })
    // Clients that know only JSON write camelCase, which no name of a field is otherwise.
    return one.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  })
}
