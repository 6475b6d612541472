import type { State } from './engine.ts'
import type { SessionRows } from './rows.ts'

/** Where a caller's last unfinished session in a menu stopped, since a time; undefined when there is none to go on with. */
export async function leftoverOf(
  rows: SessionRows,
  menu: string,
  { phone, except, since }: { phone: string; except: string; since: number },
): Promise<State['left']> {
  for (const { state: text } of await rows.left(phone, since, except)) {
    const { stack, memory, account } = JSON.parse(text) as State // only toRow writes this column
    // A session with a logged-in customer is not offered, because the phone may be in other hands now.
    if (stack.length > 1 && stack[0]?.menu === menu && !account)
      return { stack, memory: { ...memory } }
  }
  return undefined
}
