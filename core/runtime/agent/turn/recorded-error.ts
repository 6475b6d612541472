import { RuntimeError } from '../../../errors.ts'
import { fieldsIn } from '../../base/fields.ts'

/** Reads the error back from a text of `explained` of `tools/tool-content.ts`, for a call that failed before a crash. */
export function recordedError(content: string): RuntimeError {
  const { error, code, hint, details } = writtenFields(content)
  return new RuntimeError(
    typeof code === 'string' ? code : 'INTERNAL',
    typeof error === 'string' ? error : content,
    { hint: typeof hint === 'string' ? hint : undefined, details },
  )
}

function writtenFields(json: string): Readonly<Record<string, unknown>> {
  try {
    return fieldsIn(JSON.parse(json))
  } catch {
    return {} // `bounded` has cut the text, so it is no JSON any more; the whole text is the message then
  }
}
