/** Copies a text; a page that came by plain HTTP has no clipboard, and copies what it selects in a field out of sight. */
export async function copyText(text: string): Promise<void> {
  const { clipboard }: { readonly clipboard?: Clipboard } = navigator
  if (clipboard) return clipboard.writeText(text)
  const field = document.createElement('textarea')
  field.value = text
  field.style.position = 'fixed'
  field.style.opacity = '0'
  const before = document.activeElement
  document.body.append(field)
  try {
    field.select()
    if (!document.execCommand('copy')) throw new Error('The browser copied nothing.')
  } finally {
    field.remove()
    if (before instanceof HTMLElement) before.focus({ preventScroll: true })
  }
}
