import { OracleChat } from '../../../client/ui.ts'
import type { TestOracle } from '../oracle.ts'
import { mount, until } from '../page.ts'

/** A person before a chat: what the person sees, and what the person does. */
export function person(oracle: TestOracle, more: object = {}, within = oracle.provided) {
  const { oracleDid, overrides } = oracle
  const { container, unmount } = mount(
    within(<OracleChat oracleDid={oracleDid} overrides={overrides} {...more} />),
  )
  const all = (selector: string) => [...container.querySelectorAll<HTMLElement>(selector)]
  const texts = (selector: string) =>
    all(selector).map(({ textContent }) => textContent?.trim() ?? '')
  const button = (name: string, within = '.oc-root') =>
    until(() =>
      all(`${within} button`).findLast(
        (one) =>
          (one.getAttribute('aria-label') ?? one.textContent?.trim()) === name &&
          !(one as HTMLButtonElement).disabled,
      ),
    )
  const write = (selector: string, text: string) => {
    const field = all(selector).at(-1) as HTMLTextAreaElement
    const set = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value')?.set
    set?.call(field, text)
    field.dispatchEvent(new window.Event('input', { bubbles: true }))
  }
  const say = async (text: string) => {
    await until(() => all('.oc-composer textarea')[0])
    write('.oc-composer textarea', text)
    ;(await button('Send', '.oc-composer')).click()
  }
  const press = (key: string) =>
    all('.oc-composer textarea')[0]?.dispatchEvent(
      new window.KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }),
    )
  return { container, unmount, all, texts, button, write, say, press }
}
