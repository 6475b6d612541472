import { refused } from '../refusal.ts'
import { isObject } from '../wants.ts'

/**
 * Refuses a body that names another thing than the path does: the path wins over a member of the same name, so the body would
 * change a thing that its author did not mean. A client may send back the names that it read.
 */
export function onlyThis(
  raw: Uint8Array | undefined,
  named: Readonly<Record<string, string>>,
): void {
  const body = membersOf(raw)
  const faults = Object.entries(named).flatMap(([path, value]) =>
    Object.hasOwn(body, path) && body[path] !== value
      ? [{ path, message: `it stays ${JSON.stringify(value)}; leave it out` }]
      : [],
  )
  if (faults.length > 0) throw refused(faults)
}

function membersOf(raw: Uint8Array | undefined): Readonly<Record<string, unknown>> {
  if (!raw || raw.length === 0) return {}
  try {
    const body: unknown = JSON.parse(new TextDecoder().decode(raw))
    return isObject(body) ? body : {}
  } catch {
    return Object.fromEntries(new URLSearchParams(new TextDecoder().decode(raw))) // a form
  }
}
