import type { Accounts } from '../../accounts/accounts.ts'
import type { Pins } from '../../accounts/pins.ts'
import { defineMenu, type Menu } from '../../screens/menu.ts'
import { balanceScreen } from './balance.ts'
import { createScreens } from './create.ts'
import { languageScreens } from './language.ts'
import { logInScreens } from './log-in.ts'
import { accountTexts } from './texts.ts'

/** The menu of accounts: create one, log in, choose a language, see the demonstration's balance. */
export function accountMenu(accounts: Accounts, pins: Pins): Menu {
  return defineMenu({
    name: 'account',
    title: 'title',
    start: 'menu',
    texts: accountTexts,
    screens: {
      menu: {
        text: 'menu',
        options: { '1': 'name', '2': 'customerId', '3': 'language', '4': 'balance' },
      },
      ...createScreens(accounts, pins),
      ...logInScreens(accounts),
      ...languageScreens,
      ...balanceScreen,
    },
  })
}
