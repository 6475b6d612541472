import { useWords } from './words.ts'

/** The keys of a chat and what each does. */
export function Keys({ onClose }: { readonly onClose: () => void }) {
  const words = useWords()
  const keys: readonly (readonly [string, string])[] = [
    ['Enter', words.send],
    ['Shift+Enter', words.newLine],
    ['Escape', words.stop],
    ['↑', words.editLast],
    ['Ctrl/⌘+K', words.search],
    ['Ctrl/⌘+Shift+O', words.newChat],
    ['?', words.shortcuts],
  ]
  return (
    <div className="oc-shortcuts" role="dialog" aria-label={words.shortcuts}>
      <dl>
        {keys.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <button type="button" autoFocus onClick={onClose}>
        {words.close}
      </button>
    </div>
  )
}
