import { useState } from 'react'
import { useWords } from './words.ts'

/** Puts a text on the clipboard; false where a person or the browser refuses it. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copiedByHand(text)
  }
}

/** The way of a page that came by plain HTTP, to which browsers give no clipboard. */
function copiedByHand(text: string): boolean {
  const before = document.activeElement
  const field = document.createElement('textarea')
  field.value = text
  field.style.cssText = 'position:fixed;inset-block-start:0;opacity:0'
  document.body.append(field)
  field.select()
  try {
    return document.execCommand('copy')
  } catch {
    return false
  } finally {
    field.remove()
    if (before instanceof HTMLElement) before.focus()
  }
}

/** The props of `CopyButton`. */
export interface CopyButtonProps {
  readonly text: string
  readonly className?: string
}

/** Copies a text, and says so. */
export function CopyButton({ text, className }: CopyButtonProps) {
  const words = useWords()
  const [isCopied, setCopied] = useState(false)
  return (
    <button
      type="button"
      className={className}
      onClick={() => void copied(text).then((is) => setCopied(is))}
    >
      {isCopied ? words.copied : words.copy}
    </button>
  )
}
