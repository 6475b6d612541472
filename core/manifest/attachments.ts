import { RuntimeError } from '../errors.ts'

/** The schemes that the runtime reads itself. */
const own = ['https:', 'http:', 'data:']

/** Faults of a section `attachments`. */
export function checkAttachments(plugin: string, attachments: unknown): RuntimeError[] {
  if (attachments === undefined) return []
  const fault = (message: string, hint: string) =>
    new RuntimeError('MANIFEST_INVALID', `Plugin ${plugin}: ${message}`, { hint })
  if (typeof attachments !== 'object' || attachments === null)
    return [fault('"attachments" is not an object.', "It has functions by scheme: 'mxc:'.")]
  return Object.entries(attachments).flatMap(([scheme, read]) => {
    if (own.includes(scheme))
      return [fault(`"attachments" has "${scheme}".`, 'The runtime reads such addresses itself.')]
    if (!/^[a-z][a-z0-9+.-]*:$/.test(scheme))
      return [
        fault(
          `"attachments" has "${scheme}", which is no scheme.`,
          "A scheme is in lower case and ends with a colon: 'mxc:'.",
        ),
      ]
    return typeof read === 'function'
      ? []
      : [fault(`"attachments.${scheme}" is not a function.`, 'It gets the address and ctx.')]
  })
}
